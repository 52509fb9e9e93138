package upstream

import "net/url"

// ResourceOptions say what one resource is made from. The zero value stands for
// what the preset has for it.
type ResourceOptions struct {
	// Parts are the answers that the document is made from, fetched side by
	// side within one Timeout and one MaxBytes. None means the preset's own.
	//
	// One part without a Name is the document: a list for rules and banners, an
	// object for the catalogue. Parts with names are lists, and the members of an object.
	Parts []Part
	// Map is a jq program that makes the document of all parts: of the object
	// {name: list, …}, or of the one part without a name. Empty leaves it as it is.
	Map string
}

// Part is one list of the CMS, or one answer that is an object.
type Part struct {
	// Name is the member of the document that this part is: "artist",
	// "artwork", "gallery", or any other where ResourceOptions.Map takes it from there.
	Name string
	// Path is relative to Options.URL, and may end in a query. Empty means what
	// the preset has for this resource and name.
	Path string
	// Query is added to Path. Nil means what the preset has for this resource
	// and name; the parameters of paging come on top.
	Query url.Values
	// Headers are sent for this part, over those of Options.Headers.
	Headers map[string]string
	// Paging says how the list goes on.
	Paging Paging
	// Items is a jq program that finds the list in an answer: ".result.rows".
	// Empty means where the preset has it, or, without one, the answer itself.
	Items string
	// IDs is "document" for integers made from the text that identifies an item
	// (strapi5's documentId), "number" for the CMS's own. Empty means what the preset does.
	IDs string
	// Map is a jq program that is run on each item: what it yields takes the
	// item's place, nothing leaves it out. On a part that is an object it is run
	// once. Empty leaves the items as they are.
	Map string
}

// The styles of paging.
const (
	PagingNone   = "none"   // one answer is the whole list
	PagingPage   = "page"   // pages by number
	PagingOffset = "offset" // items by number
	PagingLink   = "link"   // the answer holds the link to the next page
	PagingCursor = "cursor" // the answer holds a text that asks for the next page
	PagingHeader = "header" // the link is in the Link header, as of RFC 8288
)

// Paging says how a list goes on after its first answer. What is zero means
// what the preset does, which without one is [PagingNone].
type Paging struct {
	// Style is one of the constants above.
	Style string
	// Param is the query's name for the page, offset or cursor, SizeParam for
	// the number of items asked for. "-" as SizeParam asks for none.
	Param, SizeParam string
	// Size is how many items are asked for at once. Zero means the preset's, or 100.
	Size int
	// First is the number of the first page. Nil means 1.
	First *int
	// Total is a jq program that finds in an answer how many items there are in
	// all. "-" looks at none, for a CMS whose total counts what it does not show.
	Total string
	// Next is a jq program that finds the link or the cursor in an answer.
	Next string
	// Hosts are further names that the CMS gives itself in links. The links are
	// followed on Options.URL all the same; a link to any other host is refused.
	Hosts []string
	// MaxPages and MaxItems bound a walk. Zero means 1,000 and 100,000.
	MaxPages, MaxItems int
	// Walks is how often a list is read from its first page when it changed
	// while it was read. Zero means 3.
	Walks int
	// Confirm reads a list of several pages until two walks in a row have
	// brought the same items in the same order.
	Confirm bool
}
