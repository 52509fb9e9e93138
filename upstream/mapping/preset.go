package mapping

import (
	"bytes"
	"net/url"

	"vitrine/upstream/shape"
)

// Preset is the conventions of one kind of CMS. It holds no state.
type Preset struct {
	// Name is how the configuration calls it.
	Name string
	// Walk is how its lists go on.
	Walk Walk
	// Converts reports whether Convert does anything, so that an item has to be decoded.
	Converts bool
	// HeaderCounts reports that the end of a list stands in the headers of an answer, of which its
	// validators say nothing.
	HeaderCounts bool

	parts  map[shape.Resource][]Part
	open   func(d *reader, list bool, page *Page) error
	object func(object map[string]any, ids string) any // what an object becomes, its members converted already
	item   func(object map[string]any)                 // what is done with an item alone, before object
	noise  []string                                    // keys of the CMS's own, dropped in the end
	strict bool                                        // a relation that is absent is a fault
	draft  func(object map[string]any) string          // the key that says that it is one, or ""
	joins  bool                                        // artists hold the id of their gallery
	key    string                                      // of an item's identity, where that is not its id
}

// Part is where a preset has a list.
type Part struct {
	Name  string // the member of the document; empty for the document itself
	Path  string
	Query url.Values
}

// Walk is how a preset asks for the pages of a list. It is in terms of upstream.Paging, which says
// what the fields mean.
type Walk struct {
	Style            string
	Param, SizeParam string
	Size             int
	// All is sent instead of Size at first, by those that give everything, or as much as they ever
	// give, for it.
	All string
	// Query is sent with every request for a list, unless the part says something about the
	// parameter itself.
	Query url.Values
	// Past reports the statuses that mean a page past the end.
	Past []int
}

// Parts returns where the preset has a resource. It is empty where nobody can know that.
func (p *Preset) Parts(r shape.Resource) []Part { return p.parts[r] }

// Convert frees a decoded value of the CMS's wrappers and names. item says that it is an item of a
// list, and not what is in one. ids is upstream.Part's.
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
		return p.object(v, ids)
	case []any:
		for i, element := range v {
			v[i] = p.Convert(element, false, ids)
		}
	}
	return v
}

// isJSON names the field whose value the CMS keeps as it was given, so that what looks like a
// wrapper in it is none.
func isJSON(field string) bool { return field == "tag" }

// Clean drops what only the CMS itself has a use for, so that what is counted as unknown is what
// nobody knows.
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

// Draft returns the path, below an item, of what is not published in it, or "".
func (p *Preset) Draft(v any) string {
	if p.draft == nil {
		return ""
	}
	switch v := v.(type) {
	case map[string]any:
		if name := p.draft(v); name != "" {
			return join("", name)
		}
		for _, name := range sortedKeys(v) {
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

// Identity returns what tells an item from every other of its list, whatever an editor does to it:
// what the CMS identifies it by, and whether it has that. Else it is all of the item.
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

// collections are the parts of a CMS whose lists are called as everybody would call them: prefix
// and the plural. query is by the name in the documents.
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
