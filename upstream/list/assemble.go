package list

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"vitrine/upstream/exchange"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// budget is the number of bytes left for all responses of one document.
type budget struct{ left atomic.Int64 }

func (b *budget) take(n int, limit int64) error {
	if b.left.Add(-int64(n)) < 0 {
		return exchange.TooLarge(limit)
	}
	return nil
}

func (b *budget) give(n int) { b.left.Add(int64(n)) }

// Result is the input of one document. After an error only the counts are valid.
type Result struct {
	Op          string // how the first part was obtained, for errors about its content
	Status      int
	NotModified bool   // the CMS confirmed the copy held; there is no Body
	Body        []byte // for shape.Normalize
	Validators  exchange.Validators
	Attempts    int
	Pages       int           // responses that Body was made from
	Bytes       int           // of these, decompressed
	Drafts      int           // items that the CMS marks as unpublished
	Mapping     time.Duration // spent on mapping the responses
}

// Read makes the input of the document: all parts, fetched concurrently and mapped, whole or not at
// all. Its error is an *exchange.Error.
//
// Validators are returned and used only if a single response makes the document and its body covers
// it. A list of several pages has none, since an unchanged first page says nothing about the
// others; nor have several parts, since a changed one would need the others' old responses.
func (m *Recipe) Read(ctx context.Context, cms *exchange.Client, held exchange.Validators) (Result, error) {
	spend := new(budget)
	spend.left.Store(m.maxBytes)
	if len(m.parts) > 1 {
		held = exchange.Validators{}
	}
	walked := make([]walked, len(m.parts))
	group, working := errgroup.WithContext(ctx)
	for i, p := range m.parts {
		w := &walk{recipe: m, part: p, cms: cms, spend: spend}
		group.Go(func() (err error) {
			walked[i], err = w.read(working, held)
			return err
		})
	}
	err := group.Wait()
	first := walked[0].last
	got := Result{Op: first.Op, Status: first.Status, NotModified: first.NotModified}
	for _, w := range walked {
		got.Attempts += w.attempts
		got.Pages += w.pages
		got.Drafts += w.drafts
		got.Bytes += w.bytes
	}
	if err != nil {
		return got, err
	}
	if len(m.parts) == 1 && walked[0].pages <= 1 && !m.preset.HeaderCounts && m.parts[0].Paging.Style != PagingHeader {
		got.Validators = first.Validators
	}
	if got.NotModified {
		return got, nil
	}
	if got.Body = walked[0].untouched; got.Body != nil {
		return got, nil
	}
	began := time.Now()
	got.Body, err = m.compose(ctx, walked)
	got.Mapping = time.Since(began)
	if m.preset.Converts {
		got.Drafts = 0 // compose refuses those that the programs let through
	}
	if err != nil {
		return got, failed(ctx, got.Op, err)
	}
	return got, nil
}

// failed is an error of processing complete responses.
func failed(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil && !errors.Is(err, shape.ErrRefused) {
		return exchange.Late(op, err)
	}
	return &exchange.Error{Op: op, Kind: exchange.ErrAnswer, Err: err}
}

// untouched reports whether a response is the document as it is: a plain list, or the one object.
func (m *Recipe) untouched(p *part, body []byte) bool {
	body = bytes.TrimLeft(body, "\xef\xbb\xbf \t\r\n")
	return m.preset.Name == "drf" && m.program == nil && p.program == nil && p.items == nil && p.Name == "" &&
		(!p.list || len(body) == 0 || body[0] != '{')
}

// compose makes the document's bytes from the parts, ready to be normalized.
func (m *Recipe) compose(ctx context.Context, walked []walked) ([]byte, error) {
	if m.program == nil && !m.preset.Joins(m.resource) {
		var out []byte
		for i, p := range m.parts {
			if p.Name != "" {
				separator := byte(',')
				if i == 0 {
					separator = '{'
				}
				out = fmt.Appendf(out, `%c"%s":`, separator, p.Name) // a name is a token
			}
			var err error
			if out, err = m.appendPart(ctx, out, p, walked[i]); err != nil {
				return nil, err
			}
		}
		if m.parts[0].Name != "" {
			out = append(out, '}')
		}
		return out, nil
	}
	document, err := m.decodeParts(ctx, walked)
	if err != nil {
		return nil, err
	}
	if m.program != nil {
		if document, err = runOne(ctx, m.program, string(m.resource), document); err != nil {
			return nil, err
		}
	}
	m.preset.Clean(document)
	return mapping.Append(nil, string(m.resource), document, int(m.maxBytes))
}

// decodeParts decodes all parts for a program or a join.
func (m *Recipe) decodeParts(ctx context.Context, walked []walked) (any, error) {
	lists := make(map[string]any, len(m.parts))
	byName := make(map[string][]any, len(m.parts))
	for i, p := range m.parts {
		values := []any{}
		err := m.items(ctx, p, walked[i], func(_ string, v any) error {
			values = append(values, v)
			return nil
		})
		if err != nil {
			return nil, err
		}
		switch {
		case p.list:
			lists[p.Name], byName[p.Name] = values, values
		case len(values) == 1:
			lists[p.Name] = values[0]
		default:
			return nil, notOne(p.root, len(values))
		}
	}
	if err := m.preset.Join(m.resource, byName); err != nil {
		return nil, err
	}
	if len(m.parts) == 1 && m.parts[0].Name == "" {
		return lists[""], nil
	}
	return lists, nil
}

// appendPart appends one part, item by item, so that only one of them is ever decoded.
func (m *Recipe) appendPart(ctx context.Context, out []byte, p *part, got walked) ([]byte, error) {
	if p.list {
		out = append(out, '[')
	}
	n := 0
	separate := func() {
		if n > 0 {
			out = append(out, ',')
		}
		n++
	}
	var err error
	if !m.preset.Converts && p.program == nil {
		for _, item := range got.items {
			separate()
			out = append(out, item...)
		}
	} else {
		err = m.items(ctx, p, got, func(path string, v any) (err error) {
			m.preset.Clean(v)
			separate()
			out, err = mapping.Append(out, path, v, int(m.maxBytes))
			return err
		})
	}
	switch {
	case err != nil:
		return nil, err
	case p.list:
		return append(out, ']'), nil
	case n != 1:
		return nil, notOne(p.root, n)
	}
	return out, nil
}

// items decodes, converts and maps the items of a part, and passes each result, with its path, to
// emit.
func (m *Recipe) items(ctx context.Context, p *part, got walked, emit func(path string, v any) error) error {
	left := p.Paging.MaxItems
	for i, item := range got.items {
		path := p.root
		if p.list {
			path = mapping.Index(p.root, i)
		}
		v, err := mapping.Decode(path, item)
		if err != nil {
			return err
		}
		draft := m.preset.Draft(path, v)
		v = m.preset.Convert(v, true, p.IDs)
		accept := func(v any) error {
			if draft != "" {
				return &shape.RefusedError{Path: draft, Want: "a published item (a program can leave drafts out)", Got: "a draft"}
			}
			if left--; left < 0 {
				return tooManyItems(p)
			}
			if err := m.preset.Check(p.root, path, v); err != nil {
				return err
			}
			return emit(path, v)
		}
		if p.program == nil {
			err = accept(v)
		} else {
			err = p.program.Run(ctx, path, v, mapping.Limits{Values: left + 1}, accept)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runOne runs a program that must yield exactly one value.
func runOne(ctx context.Context, program *mapping.Program, path string, in any) (any, error) {
	var out any
	n := 0
	err := program.Run(ctx, path, in, mapping.Limits{Values: 2}, func(v any) error {
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
	return &shape.RefusedError{Path: path, Want: "one value from the program", Got: got}
}
