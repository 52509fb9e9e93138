package mapping

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"vitrine/upstream/shape"
)

// Composition is everything a document's input is made from: the items of its parts, unchanged.
type Composition struct {
	Root     string // the path of the document: catalogue
	Parts    []Items
	Map      *Program // of the whole; nil for none
	Ignore   *Ignored // members of items that are left out
	Lists    []string // of the document, if it is an object of them; otherwise it is a list
	MaxBytes int      // of the result

	Missing shape.Repair // relations of the result that lead nowhere

	budget int // the memory of the values that are decoded at a time
}

// Items are those of one part.
type Items struct {
	Name     string // the member of the document; empty for the document itself
	Root     string // its path: catalogue.artist, banners
	List     bool   // otherwise it is one object
	Draft    *Program
	Maps     []*Program // run on each item, one after the other
	MaxItems int
	Items    [][]byte
	// Lists counts the items of the lists that one object is made of, by their names, as it comes.
	Lists map[string]int
}

// Compose makes the document's bytes, ready to be normalized.
func (c *Composition) Compose(ctx context.Context) ([]byte, error) {
	if c.Map == nil {
		c.budget = 8<<20 + 2*c.size()
		return c.stream(ctx)
	}
	c.budget = programMemory + programFactor*c.size()
	parts, err := c.decode(ctx)
	if err != nil {
		return nil, err
	}
	document, err := c.Map.One(ctx, c.Root, parts)
	if err != nil {
		return nil, err
	}
	if err := c.whole(c.Map, document); err != nil {
		return nil, err
	}
	out, err := Append(nil, c.Root, document, c.limits(c.Lists != nil))
	whole := Items{Maps: []*Program{c.Map}}
	return out, whole.name(err)
}

// whole refuses a document of which a program has left out a list: it would be empty.
func (c *Composition) whole(program *Program, document any) error {
	object, _ := document.(map[string]any)
	for _, name := range c.Lists {
		if _, made := object[name]; object != nil && !made {
			return program.wrong(c.Root, "want each of %s in the document, got no %s", strings.Join(c.Lists, ", "), name)
		}
	}
	return nil
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

// limits are those of an object of lists, or of an item.
func (c *Composition) limits(object bool) Limits {
	limits := Limits{Bytes: c.MaxBytes, Ignore: c.Ignore, Missing: &c.Missing}
	if object {
		limits.Items = 1
	}
	return limits
}

// stream appends part after part, item by item, so that only one item is ever decoded.
func (c *Composition) stream(ctx context.Context) (out []byte, err error) {
	size := c.size()
	out = make([]byte, 0, min(size+size/8, c.MaxBytes)+64) // growing would take it twice
	for i, p := range c.Parts {
		if p.Name != "" {
			separator := byte(',')
			if i == 0 {
				separator = '{'
			}
			out = fmt.Appendf(out, `%c"%s":`, separator, p.Name) // a name is a token
		}
		if out, err = c.part(ctx, out, p); err != nil {
			return nil, err
		}
	}
	if c.Parts[0].Name != "" {
		out = append(out, '}')
	}
	return out, nil
}

func (c *Composition) part(ctx context.Context, out []byte, p Items) ([]byte, error) {
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
	if p.Draft == nil && len(p.Maps) == 0 && c.Ignore == nil {
		for _, item := range p.Items {
			separate()
			out = append(out, item...)
		}
	} else {
		whole := c.budget
		err := c.items(ctx, p, func(path string, v any) (err error) {
			separate()
			if !p.List && len(p.Maps) > 0 {
				if err := c.whole(p.Maps[len(p.Maps)-1], v); err != nil {
					return err
				}
			}
			out, err = Append(out, path, v, c.limits(!p.List && c.Lists != nil))
			c.budget = whole // the item is finished
			return p.name(err)
		})
		if err != nil {
			return nil, err
		}
	}
	switch {
	case p.List:
		return append(out, ']'), nil
	case n != 1:
		return nil, p.notOne(n)
	}
	return out, nil
}

// decode decodes all parts for a program.
func (c *Composition) decode(ctx context.Context) (any, error) {
	lists := make(map[string]any, len(c.Parts))
	for _, p := range c.Parts {
		values := []any{}
		err := c.items(ctx, p, func(_ string, v any) error {
			values = append(values, v)
			return nil
		})
		switch {
		case err != nil:
			return nil, err
		case p.List:
			lists[p.Name] = values
		case len(values) == 1:
			lists[p.Name] = values[0]
		default:
			return nil, p.notOne(len(values))
		}
	}
	if len(c.Parts) == 1 && c.Parts[0].Name == "" {
		return lists[""], nil
	}
	return lists, nil
}

// items decodes and maps the items of a part, and passes each result, with its path, to emit.
func (c *Composition) items(ctx context.Context, p Items, emit func(path string, v any) error) error {
	left := p.MaxItems
	for i, item := range p.Items {
		if err := ctx.Err(); err != nil {
			return err
		}
		path := p.Root
		if p.List {
			path = shape.Index(path, i)
		}
		v, err := decode(path, item, &c.budget)
		if err != nil {
			return err
		}
		if object, ok := v.(map[string]any); ok && !p.List && p.Lists != nil {
			for name, member := range object {
				if list, ok := member.([]any); ok {
					p.Lists[name] = len(list)
				}
			}
		}
		draft, err := p.draft(ctx, path, v)
		if err != nil {
			return err
		}
		err = pipe(ctx, p.Maps, path, v, p.MaxItems+1, func(v any) error {
			if draft != "" {
				return refuse(draft, "a published item (a program can leave drafts out)", "a draft")
			}
			if left--; left < 0 {
				return refuse(p.Root, fmt.Sprintf("at most %d items", p.MaxItems), "more")
			}
			return emit(path, v)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// draft returns the path of an item's mark as unpublished, or of the item, or "".
func (p *Items) draft(ctx context.Context, path string, v any) (string, error) {
	if p.Draft == nil {
		return "", nil
	}
	marked, err := p.Draft.One(ctx, path, v)
	below, isPath := marked.(string)
	switch {
	case err != nil || marked == nil || marked == false:
		return "", err
	case isPath:
		return path + below, nil
	}
	return path, nil
}

// pipe runs programs one after the other, each on what the one before yields.
func pipe(ctx context.Context, programs []*Program, path string, v any, most int, emit func(any) error) error {
	if len(programs) == 0 {
		return emit(v)
	}
	return programs[0].Run(ctx, path, v, most, func(v any) error {
		return pipe(ctx, programs[1:], path, v, most, emit)
	})
}

// One runs a program that must yield exactly one value.
func (p *Program) One(ctx context.Context, path string, in any) (any, error) {
	var out any
	n := 0
	err := p.Run(ctx, path, in, 2, func(v any) error {
		out = v
		n++
		return nil
	})
	if err == nil && n != 1 {
		err = p.notOne(path, n)
	}
	return out, err
}

func (p *Program) notOne(path string, n int) error {
	got := "several"
	if n == 0 {
		got = "none"
	}
	return p.wrong(path, "want one value, got %s", got)
}

// wrong is an error about what the program yields.
func (p *Program) wrong(path, format string, args ...any) error {
	return &ProgramError{Program: p.name, Input: path, Err: fmt.Errorf(format, args...)}
}

func (p *Items) notOne(n int) error { return p.Maps[len(p.Maps)-1].notOne(p.Root, n) }

// name adds the name of the program that yields a value to a refusal of it.
func (p *Items) name(err error) error {
	refused, ok := errors.AsType[*shape.RefusedError](err)
	if !ok || len(p.Maps) == 0 {
		return err
	}
	return p.Maps[len(p.Maps)-1].wrong(refused.Path, "want %s, got %s", refused.Want, refused.Got)
}
