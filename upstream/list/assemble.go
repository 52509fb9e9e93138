package list

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"vitrine/config/source"
	"vitrine/upstream/exchange"
	"vitrine/upstream/guard"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// Request says how the responses are asked for.
type Request struct {
	Held    exchange.Validators // of the copy that the CMS may confirm
	NoCache bool                // caches on the way pass it on
	Cached  bool                // there is a copy to serve instead of a list that changes while it is read
}

// Result is the input of one document. After an error only the counts are valid.
type Result struct {
	Op          string // how the first part was obtained, or what is made of several
	Status      int
	NotModified bool   // the CMS confirmed the cached copy; there is no Body
	Body        []byte // for shape.Normalize
	Validators  exchange.Validators
	Attempts    int
	Pages       int  // responses that Body was made from
	Bytes       int  // of these, decompressed
	Unsteady    bool // a list changed while it was read, in each walk
	Warnings    guard.Findings
	Garbled     shape.Repair   // texts that were not Unicode
	Missing     shape.Repair   // relations that lead nowhere
	Samples     []Sample       // the first item of each part that was mapped
	Received    map[string]int // items as they came: of the lists that were mapped, by path
	Age         time.Duration  // of the oldest response, spent in caches on the way
	Mapping     time.Duration  // spent on mapping the responses

	ops    map[string]string // how each part was obtained, by its path
	joined bool              // a program made the document of the parts
}

// Sample is the first item of a part, as it came.
type Sample struct {
	Path string // of the part: catalogue.artist
	Op   string // how it was obtained

	// Received are the first few items of the part, the first one among them.
	Received [][]byte

	part int
}

// maxReceived is how many items of a part are kept, and maxReceivedBytes in how many bytes; one is
// kept in any case.
const maxReceived, maxReceivedBytes = 10, 64 << 10

// Read makes the input of the document: all parts, fetched concurrently and mapped, whole or not at
// all. Its error is an *exchange.Error.
//
// Validators are returned and used only if a single response makes the document and its body covers
// it. A list of several pages has none, since an unchanged first page says nothing about the
// others; nor have several parts, since a changed one would need the others' old responses; nor has
// what a program makes of the time.
func (m *Recipe) Read(ctx context.Context, cms *exchange.Client, want Request) (Result, error) {
	if m.from.Empty {
		return m.nothing(), nil
	}
	left := new(atomic.Int64)
	left.Store(m.maxBytes)
	if len(m.parts) > 1 || m.timely {
		want.Held = exchange.Validators{}
	}
	walks := make([]*walk, len(m.parts))
	group, working := errgroup.WithContext(ctx)
	for i, p := range m.parts {
		walks[i] = &walk{recipe: m, part: p, cms: cms, left: left, want: want}
		group.Go(func() (err error) {
			defer exchange.Recover("read "+p.root, &err)
			return walks[i].read(working)
		})
	}
	err := group.Wait()
	first := walks[0].last
	got := Result{Status: first.Status, NotModified: first.NotModified, Garbled: shape.Repair{Kind: shape.KindText}, ops: make(map[string]string), joined: m.program != nil, Received: make(map[string]int)}
	for i, w := range walks {
		op := cmp.Or(w.op, w.last.Op)
		got.ops[m.parts[i].root], got.Op = op, cmp.Or(got.Op, op)
		if m.parts[i].list && w.items != nil {
			got.Received[m.parts[i].root] = len(w.items)
		}
		if w.items != nil {
			sample := Sample{Path: m.parts[i].root, Op: op, part: i}
			size := 0
			for _, item := range w.items[:min(len(w.items), maxReceived)] {
				if size += len(item); size > maxReceivedBytes && sample.Received != nil {
					break
				}
				sample.Received = append(sample.Received, bytes.Clone(item)) // which is part of a response
			}
			got.Samples = append(got.Samples, sample)
		}
		got.Attempts += w.attempts
		got.Age = max(got.Age, w.age)
		got.Pages += w.pages
		got.Unsteady = got.Unsteady || w.torn != ""
		got.Warnings = append(got.Warnings, w.warnings()...)
		got.Missing = got.Missing.Plus(w.missing)
		got.Garbled = got.Garbled.Plus(w.garbled)
		got.Bytes += w.bytes
	}
	if err != nil {
		return got, err
	}
	if got.joined && len(m.parts) > 1 {
		got.Op = "make the " + string(m.resource) + " of its parts"
	}
	if len(m.parts) == 1 && !m.timely && m.parts[0].Paging.Style != source.PagingHeader &&
		m.parts[0].Paging.TotalHeader == "" && !m.parts[0].posts() {
		got.Validators = walks[0].validators
	}
	if got.NotModified {
		return got, nil
	}
	if got.Body = walks[0].untouched; got.Body != nil {
		return got, nil
	}
	began := time.Now()
	watched, stop := mapping.Watch(ctx, int(m.maxBytes-left.Load()))
	err = m.compose(watched, walks, &got)
	stop()
	got.Mapping = time.Since(began)
	if err != nil {
		return got, failed(ctx, got.at(err), err)
	}
	return got, nil
}

// At returns how the part was obtained that an error about the document is about, as far as its path
// tells.
func (r *Result) At(err error) string {
	if r.joined { // its lists need not be those of the parts
		return r.Op
	}
	return r.at(err)
}

func (r *Result) at(err error) string {
	path := ""
	if refused, ok := errors.AsType[*shape.RefusedError](err); ok {
		path = refused.Path
	} else if program, ok := errors.AsType[*mapping.ProgramError](err); ok {
		path = program.Input
	}
	for root, op := range r.ops {
		if rest, ok := strings.CutPrefix(path, root); ok && (rest == "" || rest[0] == '[' || rest[0] == '.') {
			return op
		}
	}
	return r.Op
}

// nothing is the input of a document that the CMS does not have.
func (m *Recipe) nothing() Result {
	body := []byte("[]")
	if lists := m.resource.Lists(); len(lists) > 0 {
		body = []byte(`{"` + strings.Join(lists, `":[],"`) + `":[]}`)
	}
	return Result{Op: "make the empty " + string(m.resource), Status: http.StatusOK, Body: body}
}

// compose makes the document's bytes from the parts, ready to be normalized.
func (m *Recipe) compose(ctx context.Context, walks []*walk, got *Result) (err error) {
	c := &mapping.Composition{
		Root: string(m.resource), Map: m.program, Ignore: m.ignore, Lists: m.resource.Lists(), MaxBytes: int(m.maxBytes),
	}
	for i, p := range m.parts {
		items := p.mapped
		items.Items, items.Lists = walks[i].items, make(map[string]int)
		c.Parts = append(c.Parts, items)
	}
	got.Body, err = c.Compose(ctx)
	got.Missing = got.Missing.Plus(c.Missing)
	for _, p := range c.Parts {
		for name, n := range p.Lists {
			got.Received[string(m.resource)+"."+name] = n
		}
	}
	return err
}
