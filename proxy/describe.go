package proxy

import (
	"encoding/json"

	"vitrine/proxy/negotiate"
	"vitrine/upstream/shape"
)

// A description is the answer to OPTIONS, in Django REST Framework's form. text/html is listed
// since a browser's Accept is satisfied, with JSON.
type description struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Renders     []string `json:"renders"`
	Parses      []string `json:"parses"`
	Ordering    []string `json:"ordering,omitempty"` // the fields that banners can be ordered by
}

// describe returns the answers to OPTIONS of a resource by indentation.
func describe(r shape.Resource) (all [negotiate.MaxIndent + 1][]byte, err error) {
	d := map[shape.Resource]description{
		shape.Catalogue: {Name: "Catalogue Summary List", Description: "Artists, artworks and galleries."},
		shape.Rules:     {Name: "Rule Set List", Description: "Display rules."},
		shape.Banners:   {Name: "Single Banner List", Ordering: shape.BannerFields()},
	}[r]
	d.Renders = []string{"application/json", "text/html"}
	d.Parses = []string{"application/json", "application/x-www-form-urlencoded", "multipart/form-data"}
	body, err := json.Marshal(d)
	if err != nil {
		return all, err
	}
	for n := range all {
		all[n] = shape.Indent(nil, body, n)
	}
	return all, nil
}
