package upstream

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// request is one answer that is asked for.
type request struct {
	resource shape.Resource
	part     string // its name
	page     int    // from 1
	path     string // relative to the upstream, perhaps with a query
	query    string // added to that of path
	headers  map[string]string
	limit    sizeLimit
}

// asker makes one exchange with the upstream, its retries included.
type asker interface {
	exchange(ctx context.Context, want request, held Validators) (answer, error)
	// follow returns the query of a link that an answer to want holds, if it
	// leads to the same list of the same CMS.
	follow(want request, link string, hosts []string) (*url.URL, error)
}

// budget is the bytes that all answers for one document may have together.
type budget struct{ left atomic.Int64 }

func (b *budget) take(n int, limit int64) error {
	if b.left.Add(-int64(n)) < 0 {
		return tooLarge(limit)
	}
	return nil
}

func (b *budget) give(n int) { b.left.Add(int64(n)) }

// fetch makes the document: all parts side by side, mapped, whole or not at all.
//
// Validators are given out, and used, only where a single answer made the
// document and its body said so. A list of several pages has none, since what
// confirms its first page says nothing of the others; several parts have none,
// since what confirms one is of no use without the others' old answers.
func (m *recipe) fetch(ctx context.Context, ask asker, held Validators) (answer, error) {
	spend := new(budget)
	spend.left.Store(m.maxBytes)
	if len(m.parts) > 1 {
		held = Validators{}
	}
	walked := make([]walked, len(m.parts))
	group, working := errgroup.WithContext(ctx)
	for i, p := range m.parts {
		w := &walk{recipe: m, part: p, ask: ask, spend: spend}
		group.Go(func() (err error) {
			walked[i], err = w.read(working, held)
			return err
		})
	}
	err := group.Wait()
	got := walked[0].last
	got.attempts, got.pages, got.drafts = 0, 0, 0
	bytes := 0
	for _, w := range walked {
		got.attempts += w.attempts
		got.pages += w.pages
		got.drafts += w.last.drafts
		bytes += w.bytes
	}
	if err != nil || got.notModified {
		return got, err
	}
	if len(m.parts) > 1 || walked[0].pages > 1 || m.preset.HeaderCounts || m.parts[0].paging.Style == PagingHeader {
		got.validators = Validators{}
	}
	if body := walked[0].untouched; body != nil {
		got.body = body
		return got, nil
	}
	began := time.Now()
	got.body, err = m.compose(ctx, walked)
	got.mapping, got.received = time.Since(began), bytes
	if m.preset.Converts {
		got.drafts = 0 // compose refuses those that the programs let through
	}
	if err != nil {
		return got, m.failed(ctx, got, err)
	}
	return got, nil
}

// failed is the error of what was done with answers that came whole.
func (m *recipe) failed(ctx context.Context, got answer, err error) error {
	if ctx.Err() != nil && !errors.Is(err, shape.ErrRefused) {
		return &FetchError{Resource: m.resource, Op: got.op, Kind: ErrTimeout, Err: &lateError{last: err}}
	}
	return &FetchError{Resource: m.resource, Op: got.op, Kind: ErrAnswer, Err: err}
}

// compose makes the document's bytes of the parts, ready to be normalized.
func (m *recipe) compose(ctx context.Context, walked []walked) ([]byte, error) {
	if m.program == nil && !m.preset.Joins(m.resource) {
		var out []byte
		for i, p := range m.parts {
			if p.name != "" {
				out = append(out, ",{"[b2i(i == 0)])
				out = append(append(append(out, '"'), p.name...), `":`...) // a name is a token
			}
			var err error
			if out, err = m.appendPart(ctx, out, p, walked[i]); err != nil {
				return nil, err
			}
		}
		if m.parts[0].name != "" {
			out = append(out, '}')
		}
		return out, nil
	}
	document, err := m.decodeParts(ctx, walked)
	if err != nil {
		return nil, err
	}
	if m.program != nil {
		if document, err = m.one(ctx, m.program, string(m.resource), document); err != nil {
			return nil, err
		}
	}
	m.preset.Clean(document)
	return mapping.Append(nil, string(m.resource), document, int(m.maxBytes))
}

// decodeParts makes the value of all parts that a program or a join works on.
func (m *recipe) decodeParts(ctx context.Context, walked []walked) (any, error) {
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
			lists[p.name], byName[p.name] = values, values
		case len(values) == 1:
			lists[p.name] = values[0]
		default:
			return nil, notOne(p.root, len(values))
		}
	}
	if err := m.preset.Join(m.resource, byName); err != nil {
		return nil, err
	}
	if len(m.parts) == 1 && m.parts[0].name == "" {
		return lists[""], nil
	}
	return lists, nil
}

// appendPart appends one part, item by item, so that only one of them is ever decoded.
func (m *recipe) appendPart(ctx context.Context, out []byte, p *part, got walked) ([]byte, error) {
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

// items decodes, converts and maps what came for a part, and gives each result,
// with its path in what came, to emit.
func (m *recipe) items(ctx context.Context, p *part, got walked, emit func(path string, v any) error) error {
	left := p.paging.MaxItems
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
		v = m.preset.Convert(v, true, p.ids)
		accept := func(v any) error {
			if draft != "" {
				return &shape.RefusedError{Path: draft, Want: "what is published (a program may leave drafts out)", Got: "a draft"}
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

// one runs a program that has to yield exactly one value.
func (m *recipe) one(ctx context.Context, program *mapping.Program, path string, in any) (any, error) {
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

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// isWhole reports whether body is what a plain answer is: a list, or an object.
func isWhole(body []byte, list bool) bool {
	body = bytes.TrimLeft(body, "\xef\xbb\xbf \t\r\n")
	return !list || len(body) == 0 || body[0] != '{'
}
