package list

import (
	"net/url"
	"strconv"

	"vitrine/upstream/exchange"
)

// Resource describes what one resource is made from. The zero value means the preset's parts.
type Resource struct {
	// Path is short for one part that has only a path.
	Path string
	// Parts are the responses that the document is made from, fetched concurrently within one
	// timeout and one size limit. None means the preset's own.
	//
	// One part without a Name is the document: a list for rules and banners, an object for the
	// catalogue. Parts with names are lists, and the members of an object.
	Parts []Part
	// Map is a jq program that makes the document from all parts: from the object {name: list, …},
	// or from the one part without a name. Empty leaves it as it is.
	Map string
	// Empty is true if the CMS does not have the resource: its document is empty.
	Empty bool

	lines map[string]int // of the file, by key
}

// Part is one list of the CMS, or one response that is an object.
type Part struct {
	// Name is the member of the document that this part is: "artist", "artwork", "gallery", or any
	// other if [Resource].Map uses it.
	Name string `yaml:"name"`
	// Path is relative to the base URL, and can have a query. Empty means the preset's for this
	// resource and name.
	Path string `yaml:"path"`
	// Query is added to Path. Nil means the preset's for this resource and name; the parameters of
	// paging are added.
	Query url.Values `yaml:"query"`
	// Headers are sent for this part, and win over those of all requests.
	Headers map[string]string `yaml:"headers"`
	// URL is a base URL other than the CMS's. Nothing meant for the CMS is sent there.
	URL string `yaml:"url"`
	// Authorization is the value of that header for this part, instead of the CMS's; or Login gets
	// a token for it.
	Authorization string          `yaml:"authorization"`
	Login         *exchange.Login `yaml:"login"`
	// Body makes the request a POST: JSON, or a string as it is. With JSON, the parameters of
	// paging are paths in it: variables.after.
	Body Body `yaml:"body"`
	// AcceptTypes are further media types that are JSON.
	AcceptTypes []string `yaml:"accept_types"`
	// Detail is requested for each item, for a CMS whose lists have only ids or excerpts.
	Detail *Detail `yaml:"detail"`
	// Paging describes how the list is paged.
	Paging Paging `yaml:"paging"`
	// Items is a jq program that finds the list in a response: ".result.rows". Empty means the
	// preset's place, or, without one, the response itself.
	Items string `yaml:"items"`
	// ID is a jq program that finds the identity of an item, which editing does not change: "._id".
	// Empty means the preset's, or id, or _id.
	ID string `yaml:"id"`
	// IDs is "document" for integers made from the text that identifies an item (strapi5's
	// documentId), "number" for the CMS's own. Empty means the preset's.
	IDs string `yaml:"ids" want:"document|number"`
	// Map is a jq program that is run on each item: its result replaces the item, and an empty
	// result leaves it out. On a part that is an object it is run once. Empty leaves the items as
	// they are.
	Map string `yaml:"map"`
}

// The styles of paging.
const (
	PagingNone   = "none"   // one response is the whole list
	PagingPage   = "page"   // pages by number
	PagingOffset = "offset" // items by number
	PagingLink   = "link"   // the response has the link to the next page
	PagingCursor = "cursor" // the response has the cursor of the next page
	PagingHeader = "header" // the link is in the Link header (RFC 8288)
)

// Paging describes how a list is paged. A zero field means the preset's value; without a preset
// that is [PagingNone].
type Paging struct {
	// Style is one of the constants above.
	Style string `yaml:"style" want:"none|page|offset|link|cursor|header"`
	// Param, SizeParam are the query's names for the page, offset or cursor, and for the number of
	// items per page. "-" as SizeParam sends none.
	Param     string `yaml:"param"`
	SizeParam string `yaml:"size_param"`
	// Size is the number of items per page. Zero means the preset's, or 100.
	Size int `yaml:"size" want:"1-100000"`
	// First is the number of the first page. Nil means 1.
	First *int `yaml:"first" want:"0-1"`
	// Total is a jq program that finds the total number of items in a response. "-" means none, for
	// a CMS whose total counts items that it does not show.
	Total string `yaml:"total"`
	// TotalHeader is the name of a header that says the same.
	TotalHeader string `yaml:"total_header"`
	// Next is a jq program that finds the link or the cursor in a response.
	Next string `yaml:"next"`
	// Hosts are other host names that the CMS uses for itself in links. The links are still
	// followed on the base URL; a link to any other host is refused.
	Hosts []string `yaml:"hosts"`
	// MaxPages, MaxItems bound a walk. Zero means 1,000 and 100,000.
	MaxPages int `yaml:"max_pages" want:"1-1000000"`
	MaxItems int `yaml:"max_items" want:"1-10000000"`
	// Walks is how often a list is read in all, if it changes while it is read. Zero means 3.
	Walks int `yaml:"walks" want:"1-20"`
	// Confirm reads a list of several pages until two walks in a row yield the same items in the
	// same order.
	Confirm bool `yaml:"confirm"`
}

// Detail is a request for each item of a list. Its response replaces the item.
type Detail struct {
	// Path is relative to the base URL, with {id} for the item's identity.
	Path string `yaml:"path"`
	// Query is added to it.
	Query url.Values `yaml:"query"`
	// Item is a jq program that finds the item in the response. Empty: it is the response.
	Item string `yaml:"item"`
	// Most bounds the number of items. Zero means 500.
	Most int `yaml:"most" want:"1-10000"`
}

// Body is the body of a POST. The zero value is none.
type Body struct {
	Text  string
	Value any // for JSON, as the yaml package makes it
}

// Shared is the configuration that all parts share.
type Shared struct {
	// Headers, Query are sent with each request to the CMS.
	Headers map[string]string `yaml:"headers"`
	Query   url.Values        `yaml:"query"`
	// Login gets the token for the CMS's Authorization header.
	Login *exchange.Login `yaml:"login"`
	// Def are jq definitions for all programs: def name: …;
	Def string `yaml:"def"`
	// Media is the URL that the function media resolves relative URLs against.
	Media string `yaml:"media"`

	lines map[string]int
}

// defs is the beginning of all programs.
func (s *Shared) defs() string {
	defs := ""
	if s.Media != "" {
		defs = "def media: resolve_url(" + strconv.Quote(s.Media) + ");\n"
	}
	if s.Def != "" {
		defs += s.Def + "\n"
	}
	return defs
}
