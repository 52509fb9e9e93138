// Package source says where the documents come from and how they are mapped: the keys below
// upstream in the configuration file, and those of a preset. It holds no logic: package config
// decodes these structs by their tags, and the packages of upstream check and use them.
package source

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Resource describes what one resource is made from. The zero value means the preset's parts.
type Resource struct {
	Path  string `yaml:"path"`                // short for one part, which package config makes of it
	Parts []Part `yaml:"parts"`               // one without a name is the document; others are its lists
	Map   string `yaml:"map" is:"jq program"` // makes the document from {name: list, …}, or from the one part
	Empty bool   `yaml:"empty"`               // the CMS does not have it
}

// Part is one list of the CMS, or one response that is an object. A zero field means the preset's for
// this resource and name.
type Part struct {
	Name     string     `yaml:"name"` // the member of the document, or any other if the resource's map uses it
	Path     string     `yaml:"path"` // relative to the base URL, perhaps with a query
	Query    url.Values `yaml:"query"`
	Headers  Headers    `yaml:"headers"` // win over those of all requests
	Body     Body       `yaml:"body"`    // makes it a POST; in JSON, paging's parameters are paths: variables.after
	Paging   Paging     `yaml:"paging"`
	MinItems int        `yaml:"min_items" range:"0..10000000" json:"-"` // in the list, or in each list of an object
	Items    string     `yaml:"items" is:"jq program"`                  // finds the list in a response; empty: shared's, or the response itself
	ID       string     `yaml:"id" is:"jq program"`                     // of an item, which editing does not change; empty: shared's, or id, or _id
	Map      string     `yaml:"map" is:"jq program"`                    // is run on each item, or once on an object; an empty result leaves it out
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

// Paging describes how a list is paged. A zero field means the preset's value, and without a preset
// what stands here.
type Paging struct {
	Style       string     `yaml:"style" oneof:"none page offset link cursor header"` // none
	Param       string     `yaml:"param"`                                             // the query's name for the page, offset or cursor
	SizeParam   string     `yaml:"size_param"`                                        // that for the items per page; "-" sends none
	Size        int        `yaml:"size" range:"-1..100000"`                           // 100; -1 asks for all at once
	First       *int       `yaml:"first" range:"0..1"`                                // the number of the first page: 1
	Total       string     `yaml:"total" is:"jq program"`                             // of items, in a response; "-" for none
	TotalHeader string     `yaml:"total_header"`                                      // the header that says the same
	PastEnd     int        `yaml:"past_end" range:"400..499"`                         // the status past the end; 0: an empty page is the end
	Next        string     `yaml:"next" is:"jq program"`                              // finds the link or the cursor in a response
	Query       url.Values `yaml:"query"`                                             // added to requests for a list
	Hosts       []string   `yaml:"hosts"`                                             // other names of the CMS in links, which are followed at the base URL
	MaxPages    int        `yaml:"max_pages" range:"1..1000000"`                      // 1,000
	MaxItems    int        `yaml:"max_items" range:"1..10000000"`                     // 100,000
	Walks       int        `yaml:"walks" range:"1..20"`                               // 3; how often a list is read that changes meanwhile
}

// Body is the body of a POST. The zero value is none.
type Body struct {
	Text  string
	Value any // for JSON, in the types of encoding/json, with numbers as they were written (json.Number)
}

// MarshalYAML implements yaml.Marshaler.
func (b Body) MarshalYAML() (any, error) {
	if b.Value == nil {
		return b.Text, nil
	}
	text, err := json.Marshal(b.Value)
	if err != nil {
		return nil, err
	}
	var n yaml.Node // JSON is YAML, and numbers keep each digit
	err = yaml.Unmarshal(text, &n)
	return n.Content[0], err
}

// Headers are header fields, whose values may be secrets: they do not print.
type Headers map[string]string

// MarshalYAML implements yaml.Marshaler.
func (h Headers) MarshalYAML() (any, error) {
	masked := make(map[string]string, len(h))
	for name, value := range h {
		if masked[name] = value; !IsPublic(name) {
			masked[name] = NewSecret(value).String()
		}
	}
	return masked, nil
}

// IsPublic reports whether a header field, or the last one of a key, holds no secret.
func IsPublic(name string) bool {
	return slices.Contains([]string{"accept", "accept-language", "content-type", "user-agent"}, strings.ToLower(name[strings.LastIndexByte(name, '.')+1:]))
}

// Format masks the values under every verb.
func (h Headers) Format(f fmt.State, verb rune) {
	masked, _ := h.MarshalYAML()
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), masked)
}

// Shared is the configuration that all parts share.
type Shared struct {
	Headers    Headers    `yaml:"headers"` // sent with each request to the CMS, as the query
	Query      url.Values `yaml:"query"`
	Def        string     `yaml:"def" is:"jq program"`   // jq definitions for all programs
	Items      string     `yaml:"items" is:"jq program"` // of the parts that have none of their own, as ID and Paging
	ID         string     `yaml:"id" is:"jq program"`
	Paging     Paging     `yaml:"paging"`
	Draft      string     `yaml:"draft" is:"jq program"`               // anything but null and false: an item is not published; a text is the path of the mark
	Map        string     `yaml:"map" is:"jq program"`                 // is run on each item before the part's own
	Ignore     []string   `yaml:"ignore"`                              // members of items dropped without being counted: name, or ..name at every depth
	Relations  string     `yaml:"relations" oneof:"required optional"` // required: one that did not come is an error
	RetryAfter RetryAfter `yaml:"retry_after"`                         // where a CMS without Retry-After says when to ask again
	Media      string     `yaml:"media"`                               // the base URL of the function media
	Secrets    Secrets    `yaml:"-"`                                   // in all of this and in the parts, to be masked: what came by ${NAME}, and headers
}

// RetryAfter is a header field that says how long to wait. The zero value is none.
type RetryAfter struct {
	Header string `yaml:"header"`
	// Unit is that of a number in it: a time counts from 1970. Empty means seconds.
	Unit string `yaml:"unit" oneof:"seconds milliseconds time"`
}
