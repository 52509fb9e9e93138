// Package source says where the documents come from and how they are mapped: the keys below
// upstream in the configuration file, and those of a preset. It holds no logic: package config
// decodes these structs by their tags, and the packages of upstream check and use them.
package source

import "net/url"

// Resource describes what one resource is made from. The zero value means the preset's parts.
type Resource struct {
	// Path is short for one part that has only a path. Package config makes that part, and leaves this
	// empty.
	Path string `yaml:"path"`
	// Parts are the responses that the document is made from, fetched concurrently within one
	// timeout and one size limit. None means the preset's own.
	//
	// One part without a Name is the document: a list for rules and banners, an object for the
	// catalogue. Parts with names are lists, and the members of an object.
	Parts []Part `yaml:"parts"`
	// Map is a jq program that makes the document from all parts: from the object {name: list, …},
	// or from the one part without a name. Empty leaves it as it is.
	Map string `yaml:"map" is:"jq program"`
	// Empty is true if the CMS does not have the resource: its document is empty.
	Empty bool `yaml:"empty"`
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
	// Body makes the request a POST: JSON, or a string as it is. With JSON, the parameters of
	// paging are paths in it: variables.after.
	Body Body `yaml:"body"`
	// Paging describes how the list is paged.
	Paging Paging `yaml:"paging"`
	// MinItems is how many items the list must have in the document; one with fewer is refused.
	MinItems int `yaml:"min_items" range:"0..10000000" json:"-"`
	// Items is a jq program that finds the list in a response: ".result.rows". Empty means that of
	// shared, or, without one, the response itself.
	Items string `yaml:"items" is:"jq program"`
	// ID is a jq program that finds the identity of an item, which editing does not change: "._id".
	// Empty means that of shared, or id, or _id.
	ID string `yaml:"id" is:"jq program"`
	// Map is a jq program that is run on each item: its result replaces the item, and an empty
	// result leaves it out. On a part that is an object it is run once. Empty leaves the items as
	// they are.
	Map string `yaml:"map" is:"jq program"`
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
	Style string `yaml:"style" oneof:"none page offset link cursor header"`
	// Param, SizeParam are the query's names for the page, offset or cursor, and for the number of
	// items per page. "-" as SizeParam sends none.
	Param     string `yaml:"param"`
	SizeParam string `yaml:"size_param"`
	// Size is the number of items per page: -1 for all that the CMS gives at once, which is sent so.
	// Zero means the preset's, or 100.
	Size int `yaml:"size" range:"-1..100000"`
	// First is the number of the first page. Nil means 1.
	First *int `yaml:"first" range:"0..1"`
	// Total is a jq program that finds the total number of items in a response. "-" means none, for
	// a CMS whose total counts items that it does not show.
	Total string `yaml:"total" is:"jq program"`
	// TotalHeader is the name of a header that says the same.
	TotalHeader string `yaml:"total_header"`
	// PastEnd is the status of a page after the last, of a CMS that reports no total: 404 in Django
	// REST Framework. Zero means that an empty page ends the list, and any such status is an error.
	PastEnd int `yaml:"past_end" range:"400..499"`
	// Next is a jq program that finds the link or the cursor in a response.
	Next string `yaml:"next" is:"jq program"`
	// Query is added to the requests for a list, except for parameters that the part sets.
	Query url.Values `yaml:"query"`
	// Hosts are other host names that the CMS uses for itself in links. The links are still
	// followed on the base URL; a link to any other host is refused.
	Hosts []string `yaml:"hosts"`
	// MaxPages, MaxItems bound a walk. Zero means 1,000 and 100,000.
	MaxPages int `yaml:"max_pages" range:"1..1000000"`
	MaxItems int `yaml:"max_items" range:"1..10000000"`
	// Walks is how often a list is read in all, if it changes while it is read. Zero means 3.
	Walks int `yaml:"walks" range:"1..20"`
}

// Body is the body of a POST. The zero value is none.
type Body struct {
	Text  string
	Value any // for JSON, in the types of encoding/json, with numbers as they were written (json.Number)
}

// Shared is the configuration that all parts share.
type Shared struct {
	// Headers, Query are sent with each request to the CMS.
	Headers map[string]string `yaml:"headers"`
	Query   url.Values        `yaml:"query"`
	// Login gets the token for the CMS's Authorization header.
	Login *Login `yaml:"login"`
	// Def are jq definitions for all programs: def name: …;
	Def string `yaml:"def" is:"jq program"`
	// Items, ID and Paging are those of the parts that have none of their own.
	Items  string `yaml:"items" is:"jq program"`
	ID     string `yaml:"id" is:"jq program"`
	Paging Paging `yaml:"paging"`
	// Draft is a jq program that is run on each item as it was received. Anything but null and false
	// means that it is not published: the document is refused, unless the programs leave the item
	// out. A text is the path of the mark, for the message.
	Draft string `yaml:"draft" is:"jq program"`
	// Map is a jq program that is run on each item before the part's own.
	Map string `yaml:"map" is:"jq program"`
	// Ignore are the CMS's own members of items, which are dropped without being counted: name, or
	// ..name at every depth.
	Ignore []string `yaml:"ignore"`
	// Relations is "required" for a CMS that sends null or an empty list for a relation without
	// content, so that one that did not come is an error. Empty means "optional".
	Relations string `yaml:"relations" oneof:"required optional"`
	// Media is the URL that the function media resolves relative URLs against.
	Media string `yaml:"media"`
	// Secrets are the values in all of this and in the parts that nobody may see: those of ${env:…}
	// and ${file:…}, and those under names such as api_key.
	Secrets []string `yaml:"-"`
}

// Login is a POST whose answer has the token for the Authorization header.
type Login struct {
	// Path is relative to the base URL; URL is that of another server. One of them is required.
	Path string `yaml:"path"`
	URL  string `yaml:"url"`
	// Form is sent as an HTML form is, Body as JSON or as it is.
	Form map[string]string `yaml:"form"`
	Body Body              `yaml:"body"`
	// Token is a jq program that finds the token in the answer. Empty means .access_token. It is sent
	// as Bearer, unless it has a blank: then it is the whole header.
	Token string `yaml:"token" is:"jq program"`
}
