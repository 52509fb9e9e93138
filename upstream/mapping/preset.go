package mapping

import (
	"bytes"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"vitrine/upstream/shape"
)

// Preset is the conventions of one kind of CMS. It holds no state.
type Preset struct {
	// Name is its name in the configuration.
	Name string
	// Walk is how its lists are paged.
	Walk Walk
	// Converts reports whether Convert does anything, so that items must be decoded.
	Converts bool
	// HeaderCounts reports that the end of a list is in the headers, which validators do not cover.
	HeaderCounts bool
	// Expands reports that a missing relation is an error: see shape.Read.
	Expands bool

	parts map[shape.Resource][]Part
	envelope
	object func(object map[string]any, ids string) any // converts an object whose members are converted already
	names  map[string]string                           // the CMS's names of documented fields, for those that object makes
	item   func(object map[string]any)                 // converts an item, before object
	noise  []string                                    // the CMS's own keys, dropped at the end
	draft  func(object map[string]any) string          // the key that says that it is one, or ""
	joins  bool                                        // artists have the id of their gallery
	key    string                                      // of an item's identity, if that is not its id
}

// Part is the place of a list in a preset.
type Part struct {
	Name  string // the member of the document; empty for the document itself
	Path  string
	Query url.Values
}

// Walk is how a preset pages lists. Its fields are those of list.Paging.
type Walk struct {
	Style            string
	Param, SizeParam string
	Size             int
	// All is sent instead of Size at first, if it means everything, or the server's maximum.
	All string
	// Query is sent with every request for a list, except parameters that the part sets.
	Query url.Values
	// Past reports whether a status means a page past the end.
	Past []int
}

// Parts returns the parts of a resource in the preset; empty if unknown.
func (p *Preset) Parts(r shape.Resource) []Part { return p.parts[r] }

// Open finds the list in a response, or with list false the one object. root is the path of the
// list in the document; there can be left of most items.
func (p *Preset) Open(root string, list bool, left, most int, body []byte, header http.Header) (Page, error) {
	page := Page{Total: -1, Pages: -1, left: left, most: most}
	d := newReader(root, body)
	if err := p.open(d, list, &page); err != nil {
		return Page{}, err
	}
	if err := d.end(); err != nil {
		return Page{}, err
	}
	if p.HeaderCounts && list {
		page.Total = headerCount(header, "X-Wp-Total")
		page.Pages = headerCount(header, "X-Wp-Totalpages")
		page.Next = NextLink(header)
	}
	return page, nil
}

// Convert removes the CMS's envelopes and names from a decoded value. item says that it is an item
// of a list, rather than a part of one. ids is list.Part's.
func (p *Preset) Convert(v any, item bool, ids string) any {
	switch v := v.(type) {
	case map[string]any:
		if item && p.item != nil {
			p.item(v)
		}
		for name, member := range v {
			if !isJSON(name) {
				v[name] = p.Convert(member, false, ids)
			}
		}
		if p.object == nil {
			return v
		}
		made := p.object(v, ids)
		if object, ok := made.(map[string]any); ok {
			p.rename(object)
		}
		return made
	case []any:
		for i, element := range v {
			v[i] = p.Convert(element, false, ids)
		}
	}
	return v
}

// rename gives an object the documented names, unless its type has fields of these names, and
// replaces the parent of a city by its id, as in a CMS that does not expand it.
func (p *Preset) rename(object map[string]any) {
	for theirs, ours := range p.names {
		value, there := object[theirs]
		if _, taken := object[ours]; there && !taken {
			object[ours] = value
		}
	}
	if parent, ok := object["parent"].(map[string]any); ok {
		if id, ok := parent["id"]; ok {
			object["parent"] = id
		}
	}
}

// isJSON names the field that the CMS stores as raw JSON, in which nothing is an envelope.
func isJSON(field string) bool { return field == "tag" }

// Clean drops the CMS's own keys, so that they are not counted as unknown.
func (p *Preset) Clean(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range p.noise {
			delete(v, name)
		}
		for _, member := range v {
			p.Clean(member)
		}
	case []any:
		for _, element := range v {
			p.Clean(element)
		}
	}
}

// cleanDocument is Clean for a whole document, whose lists may have such a name.
func (p *Preset) cleanDocument(v any) {
	if object, ok := v.(map[string]any); ok {
		for _, list := range object {
			p.Clean(list)
		}
		return
	}
	p.Clean(v)
}

// Draft returns the path, below an item, of its mark as unpublished, or "".
func (p *Preset) Draft(v any) string {
	if p.draft == nil {
		return ""
	}
	switch v := v.(type) {
	case map[string]any:
		if name := p.draft(v); name != "" {
			return join("", name)
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if found := p.Draft(v[name]); found != "" {
				return join("", name) + found
			}
		}
	case []any:
		for i, element := range v {
			if found := p.Draft(element); found != "" {
				return index("", i) + found
			}
		}
	}
	return ""
}

// Identity returns what distinguishes an item in its list, whatever an editor does to it, and
// whether the CMS provides that; otherwise it is the whole item.
func (p *Preset) Identity(item []byte) (identity string, has bool) {
	d := newReader("", item)
	if d.json.PeekKind() != '{' {
		return string(item), false
	}
	found := map[string][]byte{}
	err := d.members(func(name string) error {
		v, err := d.raw()
		switch name {
		case "id", "_id", "locale", p.key:
			found[name] = v
		}
		return err
	})
	if err != nil {
		return string(item), false
	}
	for _, name := range []string{p.key, "id", "_id"} {
		if id := found[name]; id != nil && string(id) != "null" {
			if name == p.key { // one for each language
				id = append(bytes.Clone(id), found["locale"]...)
			}
			return string(id), true
		}
	}
	return string(item), false
}

// collections are the parts of a CMS whose lists have the usual names: prefix and the plural. query
// is by the name in the documents.
func collections(prefix string, query map[string]url.Values) map[shape.Resource][]Part {
	return map[shape.Resource][]Part{
		shape.Catalogue: {
			{Name: "artist", Path: prefix + "artists", Query: query["artist"]},
			{Name: "artwork", Path: prefix + "artworks", Query: query["artwork"]},
			{Name: "gallery", Path: prefix + "galleries", Query: query["gallery"]},
		},
		shape.Rules:   {{Path: prefix + "rules", Query: query["rules"]}},
		shape.Banners: {{Path: prefix + "banners", Query: query["banners"]}},
	}
}
