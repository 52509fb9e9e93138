package list

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"vitrine/config/source"
	"vitrine/upstream/exchange"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// Result is the input of one document. After an error only the counts are valid.
type Result struct {
	Op          string // how the first part was obtained, or what is made of several
	Status      int
	NotModified bool   // the CMS confirmed the copy held; there is no Body
	Body        []byte // for shape.Normalize
	Validators  exchange.Validators
	Attempts    int
	Pages       int           // responses that Body was made from
	Bytes       int           // of these, decompressed
	Unpaged     []Unpaged     // lists that seem to continue, without configured paging
	Drafts      int           // items that the CMS marks as unpublished
	Samples     []Sample      // the first item of each part that was mapped
	Mapping     time.Duration // spent on mapping the responses

	responses map[string][]mapping.Response // of each part, by its path
	joined    bool                          // a program made the document of the parts
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

// Unpaged is a list whose single response shows that there is more.
type Unpaged struct {
	Path  string // of the list
	Items int    // that came
	Shown string // what shows it: next: "…"
}

// Read makes the input of the document: all parts, fetched concurrently and mapped, whole or not at
// all. Its error is an *exchange.Error.
//
// Validators are returned and used only if a single response makes the document and its body covers
// it. A list of several pages has none, since an unchanged first page says nothing about the
// others; nor have several parts, since a changed one would need the others' old responses; nor has
// what a program makes of the time.
func (m *Recipe) Read(ctx context.Context, cms *exchange.Client, held exchange.Validators) (Result, error) {
	if m.from.Empty {
		return m.nothing(), nil
	}
	left := new(atomic.Int64)
	left.Store(m.maxBytes)
	if len(m.parts) > 1 || m.timely {
		held = exchange.Validators{}
	}
	walked := make([]walked, len(m.parts))
	group, working := errgroup.WithContext(ctx)
	for i, p := range m.parts {
		w := &walk{recipe: m, part: p, cms: cms, left: left}
		group.Go(func() (err error) {
			defer exchange.Recover("read "+p.root, &err)
			walked[i], err = w.read(working, held)
			return err
		})
	}
	err := group.Wait()
	first := walked[0].last
	got := Result{Status: first.Status, NotModified: first.NotModified, responses: make(map[string][]mapping.Response), joined: m.program != nil}
	for i, w := range walked {
		if w.responses == nil {
			w.responses = []mapping.Response{{Op: w.last.Op}}
		}
		got.responses[m.parts[i].root] = w.responses
		got.Op = cmp.Or(got.Op, w.responses[0].Op)
		if w.items != nil {
			sample := Sample{Path: m.parts[i].root, Op: w.responses[0].Op, part: i}
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
		got.Pages += w.pages
		got.Drafts += w.drafts
		got.Bytes += w.bytes
		if w.more != "" {
			got.Unpaged = append(got.Unpaged, Unpaged{Path: m.parts[i].root, Items: len(w.items), Shown: w.more})
		}
	}
	if err != nil {
		return got, err
	}
	if got.joined && len(m.parts) > 1 {
		got.Op = "make the " + string(m.resource) + " of its parts"
	}
	if len(m.parts) == 1 && !m.timely && m.parts[0].Paging.Style != source.PagingHeader &&
		m.parts[0].Paging.TotalHeader == "" && !m.parts[0].posts() {
		got.Validators = walked[0].validators
	}
	if got.NotModified {
		return got, nil
	}
	if got.Body = walked[0].untouched; got.Body != nil {
		return got, nil
	}
	began := time.Now()
	watched, stop := mapping.Watch(ctx, int(m.maxBytes-left.Load()))
	got.Body, err = m.compose(watched, walked)
	stop()
	got.Mapping = time.Since(began)
	if err != nil {
		return got, failed(ctx, got.at(err, false), err)
	}
	return got, nil
}

// At returns how the response was obtained that an error about the document is about, as far as its
// path tells.
func (r *Result) At(err error) string {
	if r.joined { // its lists need not be those of the parts
		return r.Op
	}
	return r.at(err, true)
}

// at is At for a path in the document that is made, or in the parts as received.
func (r *Result) at(err error, made bool) string {
	path := ""
	if refused, ok := errors.AsType[*shape.RefusedError](err); ok {
		path = refused.Path
	} else if program, ok := errors.AsType[*mapping.ProgramError](err); ok {
		path = program.Input
	}
	for root, responses := range r.responses {
		rest, ok := strings.CutPrefix(path, root)
		if ok && (rest == "" || rest[0] == '[' || rest[0] == '.') {
			digits, _, _ := strings.Cut(strings.TrimPrefix(rest, "["), "]")
			if item, err := strconv.Atoi(digits); err == nil {
				return mapping.With(responses, item, made)
			}
			return responses[0].Op
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
func (m *Recipe) compose(ctx context.Context, walked []walked) ([]byte, error) {
	c := &mapping.Composition{
		Root: string(m.resource), Map: m.program, Ignore: m.ignore, Object: len(m.resource.Lists()) > 0, MaxBytes: int(m.maxBytes),
	}
	for i, p := range m.parts {
		items := p.mapped
		items.Items, items.Responses = walked[i].items, walked[i].responses
		c.Parts = append(c.Parts, items)
	}
	return c.Compose(ctx)
}
