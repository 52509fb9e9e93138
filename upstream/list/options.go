package list

import "net/url"

// Resource says what one resource is made from. The zero value stands for what the preset has for
// it.
type Resource struct {
	// Path is short for one part that has only a path.
	Path string
	// Parts are the answers that the document is made from, fetched side by side within one timeout
	// and one limit of bytes. None means the preset's own.
	//
	// One part without a Name is the document: a list for rules and banners, an object for the
	// catalogue. Parts with names are lists, and the members of an object.
	Parts []Part
	// Map is a jq program that makes the document of all parts: of the object {name: list, …}, or
	// of the one part without a name. Empty leaves it as it is.
	Map string

	lines map[string]int // of the file, by key
}

// Part is one list of the CMS, or one answer that is an object.
type Part struct {
	// Name is the member of the document that this part is: "artist", "artwork", "gallery", or any
	// other where [Resource].Map takes it from there.
	Name string `yaml:"name"`
	// Path is relative to the base URL, and may end in a query. Empty means what the preset has for
	// this resource and name.
	Path string `yaml:"path"`
	// Query is added to Path. Nil means what the preset has for this resource and name; the
	// parameters of paging come on top.
	Query url.Values `yaml:"query"`
	// Headers are sent for this part, over those of all requests.
	Headers map[string]string `yaml:"headers"`
	// Paging says how the list goes on.
	Paging Paging `yaml:"paging"`
	// Items is a jq program that finds the list in an answer: ".result.rows". Empty means where the
	// preset has it, or, without one, the answer itself.
	Items string `yaml:"items"`
	// IDs is "document" for integers made from the text that identifies an item (strapi5's
	// documentId), "number" for the CMS's own. Empty means what the preset does.
	IDs string `yaml:"ids" want:"document|number"`
	// Map is a jq program that is run on each item: what it yields takes the item's place, nothing
	// leaves it out. On a part that is an object it is run once. Empty leaves the items as they
	// are.
	Map string `yaml:"map"`
}

// The styles of paging.
const (
	PagingNone   = "none"   // one answer is the whole list
	PagingPage   = "page"   // pages by number
	PagingOffset = "offset" // items by number
	PagingLink   = "link"   // the answer holds the link to the next page
	PagingCursor = "cursor" // the answer holds a text that asks for the next page
	PagingHeader = "header" // the link is in the Link header (RFC 8288)
)

// Paging says how a list goes on after its first answer. What is zero means what the preset does,
// which without one is [PagingNone].
type Paging struct {
	// Style is one of the constants above.
	Style string `yaml:"style" want:"none|page|offset|link|cursor|header"`
	// Param, SizeParam are the query's names for the page, offset or cursor, and for the number of
	// items asked for. "-" as SizeParam asks for none.
	Param     string `yaml:"param"`
	SizeParam string `yaml:"size_param"`
	// Size is how many items are asked for at once. Zero means the preset's, or 100.
	Size int `yaml:"size" want:"1-100000"`
	// First is the number of the first page. Nil means 1.
	First *int `yaml:"first" want:"0-1"`
	// Total is a jq program that finds in an answer how many items there are in all. "-" looks at
	// none, for a CMS whose total counts what it does not show.
	Total string `yaml:"total"`
	// Next is a jq program that finds the link or the cursor in an answer.
	Next string `yaml:"next"`
	// Hosts are further names that the CMS gives itself in links. The links are followed on the
	// base URL all the same; a link to any other host is refused.
	Hosts []string `yaml:"hosts"`
	// MaxPages, MaxItems bound a walk. Zero means 1,000 and 100,000.
	MaxPages int `yaml:"max_pages" want:"1-1000000"`
	MaxItems int `yaml:"max_items" want:"1-10000000"`
	// Walks is how often a list is read from its first page when it changed while it was read. Zero
	// means 3.
	Walks int `yaml:"walks" want:"1-20"`
	// Confirm reads a list of several pages until two walks in a row have brought the same items in
	// the same order.
	Confirm bool `yaml:"confirm"`
}
