package mapping

import (
	"context"
	"fmt"
	"slices"

	"vitrine/upstream/shape"
)

// Composition is everything a document's input is made from: the items of its parts, unchanged. It
// is plain data, so that another process can do the work (worker.go).
type Composition struct {
	Resource shape.Resource
	Preset   string
	Parts    []Items
	Map      *Program // of the whole; nil for none
	MaxBytes int      // of the result
	Alone    bool     // the parts are not joined
}

// Items are those of one part.
type Items struct {
	Name     string // the member of the document; empty for the document itself
	Root     string // its path: catalogue.artist, banners
	List     bool   // otherwise it is one object
	IDs      string // see list.Part
	Map      *Program
	MaxItems int
	Items    [][]byte `json:"-"`
}

// budgetOf bounds the memory of the values decoded at a time if this process does the work, which
// also holds the responses and the result.
func (c *Composition) budgetOf() *int {
	budget := 8<<20 + 2*c.size()
	return &budget
}

// size is that of all items, in bytes, with what separates them.
func (c *Composition) size() (n int) {
	for _, p := range c.Parts {
		for _, item := range p.Items {
			n += len(item) + 1
		}
	}
	return n
}

// programs reports whether any program has to be run.
func (c *Composition) programs() bool {
	return c.Map != nil || slices.ContainsFunc(c.Parts, func(p Items) bool { return p.Map != nil })
}

// run makes the document's bytes, ready to be normalized. budget can be nil.
func (c *Composition) run(ctx context.Context, budget *int) ([]byte, error) {
	preset, ok := Lookup(c.Preset)
	if !ok {
		return nil, fmt.Errorf("no preset %q", c.Preset)
	}
	w := &composing{Composition: c, ctx: ctx, preset: preset, budget: budget}
	if c.Map == nil && (c.Alone || !preset.Joins(c.Resource)) {
		return w.stream()
	}
	document, err := w.decodeParts()
	if err != nil {
		return nil, err
	}
	if c.Map != nil {
		if document, err = c.Map.one(ctx, string(c.Resource), document); err != nil {
			return nil, err
		}
		preset.cleanDocument(document)
	}
	return Append(nil, string(c.Resource), document, c.MaxBytes)
}

type composing struct {
	*Composition
	ctx    context.Context
	preset *Preset
	budget *int
}

// stream appends part after part, item by item, so that only one item is ever decoded.
func (w *composing) stream() (out []byte, err error) {
	size := w.size()
	out = make([]byte, 0, min(size+size/8, w.MaxBytes)+64) // growing would take it twice
	for i, p := range w.Parts {
		if p.Name != "" {
			separator := byte(',')
			if i == 0 {
				separator = '{'
			}
			out = fmt.Appendf(out, `%c"%s":`, separator, p.Name) // a name is a token
		}
		if out, err = w.appendPart(out, p); err != nil {
			return nil, err
		}
	}
	if w.Parts[0].Name != "" {
		out = append(out, '}')
	}
	return out, nil
}

func (w *composing) appendPart(out []byte, p Items) ([]byte, error) {
	if p.List {
		out = append(out, '[')
	}
	n := 0
	separate := func() {
		if n > 0 {
			out = append(out, ',')
		}
		n++
	}
	if !w.preset.Converts && p.Map == nil {
		for _, item := range p.Items {
			separate()
			out = append(out, item...)
		}
	} else {
		whole := 0
		if w.budget != nil {
			whole = *w.budget
		}
		err := w.items(p, func(path string, v any) (err error) {
			w.clean(p, v)
			separate()
			out, err = Append(out, path, v, w.MaxBytes)
			if w.budget != nil { // the item is finished
				*w.budget = whole
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	switch {
	case p.List:
		return append(out, ']'), nil
	case n != 1:
		return nil, notOne(p.Root, n)
	}
	return out, nil
}

// clean drops the CMS's own keys from an item of a part.
func (w *composing) clean(p Items, v any) {
	if p.List {
		w.preset.Clean(v)
	} else {
		w.preset.cleanDocument(v)
	}
}

// decodeParts decodes all parts for a program or a join.
func (w *composing) decodeParts() (any, error) {
	lists := make(map[string]any, len(w.Parts))
	byName := make(map[string][]any, len(w.Parts))
	for _, p := range w.Parts {
		values := []any{}
		err := w.items(p, func(_ string, v any) error {
			if w.Map == nil { // before the items refer to each other
				w.clean(p, v)
			}
			values = append(values, v)
			return nil
		})
		if err != nil {
			return nil, err
		}
		switch {
		case p.List:
			lists[p.Name], byName[p.Name] = values, values
		case len(values) == 1:
			lists[p.Name] = values[0]
		default:
			return nil, notOne(p.Root, len(values))
		}
	}
	if err := w.preset.Join(w.Resource, byName); err != nil {
		return nil, err
	}
	if len(w.Parts) == 1 && w.Parts[0].Name == "" {
		return lists[""], nil
	}
	return lists, nil
}

// items decodes, converts and maps the items of a part, and passes each result, with its path, to
// emit.
func (w *composing) items(p Items, emit func(path string, v any) error) error {
	left := p.MaxItems
	for i, item := range p.Items {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		path := p.Root
		if p.List {
			path = index(path, i)
		}
		v, err := decode(path, item, w.budget)
		if err != nil {
			return err
		}
		draft := w.preset.Draft(v)
		v = w.preset.Convert(v, true, p.IDs)
		accept := func(v any) error {
			if draft != "" {
				return refuse(path+draft, "a published item (a program can leave drafts out)", "a draft")
			}
			if left--; left < 0 {
				return refuse(p.Root, fmt.Sprintf("at most %d items", p.MaxItems), "more")
			}
			return emit(path, v)
		}
		if p.Map == nil {
			err = accept(v)
		} else {
			err = p.Map.Run(w.ctx, path, v, left+1, accept)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// one runs a program that must yield exactly one value.
func (p *Program) one(ctx context.Context, path string, in any) (any, error) {
	var out any
	n := 0
	err := p.Run(ctx, path, in, 2, func(v any) error {
		out = v
		n++
		return nil
	})
	if err == nil && n != 1 {
		err = notOne(path, n)
	}
	return out, err
}

func notOne(path string, n int) error {
	got := "several"
	if n == 0 {
		got = "none"
	}
	return refuse(path, "one value from the program", got)
}

// Join puts the galleries of a catalogue into its artists, for a CMS that sends their ids only.
// lists are by name; an unknown id is refused.
func (p *Preset) Join(r shape.Resource, lists map[string][]any) error {
	if !p.joins || r != shape.Catalogue {
		return nil
	}
	galleries := map[string]any{}
	for _, gallery := range lists["gallery"] {
		if object, ok := gallery.(map[string]any); ok {
			galleries[number(object["id"])] = gallery
		}
	}
	for i, artist := range lists["artist"] {
		object, ok := artist.(map[string]any)
		if !ok {
			continue
		}
		id := number(object["gallery_artists"])
		switch id {
		case "":
		case "0":
			object["gallery_artists"] = nil
		default:
			gallery, found := galleries[id]
			if !found {
				return refuse(join(index("catalogue.artist", i), "gallery_artists"), "the id of a gallery of the catalogue, or 0", id)
			}
			object["gallery_artists"] = gallery
		}
	}
	return nil
}

// Joins reports whether Join has anything to do for r.
func (p *Preset) Joins(r shape.Resource) bool { return p.joins && r == shape.Catalogue }
