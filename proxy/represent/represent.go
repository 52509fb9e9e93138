// Package represent keeps a document in every form that visitors request: the CMS's order or
// another, compact or indented, in four content codings.
//
// One request goes through it in this order:
//
//  1. [Document.Get] returns the document in the CMS's order, compact, which always exists; each of
//     its codings is made when it is first requested (compress.go);
//  2. any other form is looked up, without a lock, in a set that is bounded in number and bytes
//     (derived.go);
//  3. a form that is not held is built, once however many request it, by at most half the
//     processors, and replaces the forms that were not requested for the longest;
//  4. while all builders are busy, or all forms held are being written to clients, the answer is
//     the cheapest form: without indentation and content coding; in another order, the document's
//     own bytes item by item (order.go). Unusual requests cost a share of the processors, and no
//     memory.
package represent

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"vitrine/cache"
	"vitrine/proxy/negotiate"
	"vitrine/proxy/processors"
	"vitrine/upstream/shape"
)

// A Document is a document ready to be written. It is shared by all requests.
type Document struct {
	Items   int // of the document
	base    *form
	banners banners
	derived derived

	builders *processors.Half
}

// errForm is a document that would have to be repaired first.
var errForm = errors.New("it is not in the documented form")

// Prepare returns the function that prepares the documents of a resource, called for each document
// admitted to memory. Anybody may have written to Redis, so one that is not exactly as
// [shape.Normalize] writes it is an error. A document that a fetch merely confirmed reuses the
// prepared one, so that nothing is checked, compressed or ordered again because a TTL passed.
// Derived forms are built while there are builders, of all documents together.
func Prepare(r shape.Resource, builders *processors.Half) func(*cache.Document) (*Document, error) {
	var last atomic.Pointer[Document]
	return func(d *cache.Document) (*Document, error) {
		if p := last.Load(); p != nil && string(p.base.identity.Tag) == d.ETag {
			return p, nil
		}
		p := &Document{builders: builders}
		doc, err := shape.Normalize(r, d.Body)
		if err == nil && !bytes.Equal(doc.Body, d.Body) {
			err = errForm
		}
		if err != nil {
			return nil, fmt.Errorf("prepare %s: %w", r, err)
		}
		if doc.Body = d.Body; r.Sortable() {
			p.banners = banners{doc.Body, doc.Banners()}
		}
		p.Items = doc.Items
		p.base = newForm(d.Body, d.ETag)
		p.derived.init(len(d.Body))
		last.Store(p)
		return p, nil
	}
}

// Get returns the document in a form and a content coding, or a plainer one if that would cost too
// much now. The writer of the content releases the lease afterwards.
func (d *Document) Get(k Key, e negotiate.Encoding) (*Representation, Lease) {
	if k == (Key{}) {
		return d.base.strong(e), Lease{}
	}
	if f := d.derived.find(k); f != nil {
		if r := f.made(e); r != nil {
			return r, f.lease()
		}
	}
	return d.build(want{k, e})
}

// build answers a want that is not held, once for all requests that want it meanwhile.
func (d *Document) build(w want) (*Representation, Lease) {
	type built struct {
		rep  *Representation
		form *form // leased by a writer; nil for none
	}
	v, _, _ := d.derived.building.Do(w.name(), func() (any, error) {
		rep, form := d.make(w, d.derived.askedBefore(w))
		return built{rep, form}, nil
	})
	b, _ := v.(built)
	return b.rep, b.form.lease()
}

// make builds the form if a builder is free, or if it was wanted before; otherwise a plainer one,
// for which it waits for a builder only if it has to be ordered.
func (d *Document) make(w want, again bool) (*Representation, *form) {
	if d.builders.TryTake() {
		again = true
	} else {
		if f := d.derived.find(w.key); f != nil && !again {
			return f.made(negotiate.Identity), f
		}
		if w.key.Ordering == (negotiate.Ordering{}) && !again {
			return &d.base.identity, nil
		}
		d.builders.Take()
	}
	defer d.builders.Give()

	f := d.derived.find(w.key)
	if f == nil {
		order := d.banners.order(w.key.Ordering)
		if !again {
			return d.plain(order), nil
		}
		f = d.form(order, int(w.key.Indent))
		if !d.derived.keep(w.key, f, 0) {
			return d.plain(order), nil
		}
	}
	if r := f.made(w.coding); r != nil {
		return r, f
	}
	if f.same != nil {
		return f.same.strong(w.coding), f
	}
	r := f.compressed(w.coding, quick)
	if r != &f.identity && !d.derived.keep(w.key, f, len(r.Body)) {
		return &f.identity, f
	}
	f.variants[w.coding].made.Store(r)
	return r, f
}

// form renders the document in an order, nil for the CMS's, with an indentation.
func (d *Document) form(order []int32, indent int) *form {
	body := d.base.identity.Body
	if order == nil && indent == 0 {
		return &form{same: d.base}
	}
	if order != nil {
		body = d.banners.items(order).appendTo(make([]byte, 0, len(d.banners.body)))
	}
	if indent > 0 {
		body = bytes.Clone(shape.Indent(make([]byte, 0, 2*len(body)), body, indent)) // to its size
	}
	return newForm(body, cache.ETag(body))
}

// plain is the document in an order, nil for the CMS's, at minimal cost.
func (d *Document) plain(order []int32) *Representation {
	if order == nil {
		return &d.base.identity
	}
	items := d.banners.items(order)
	return &Representation{
		Items: items, Size: len(d.banners.body), Tag: []byte(items.tag()), Encoding: negotiate.Identity, Varies: d.base.identity.Varies,
	}
}

// minCompressed is the size in bytes from which a body has compressed variants. A smaller one fits
// in one packet.
const minCompressed = 1400

// A Key names a form: an ordering and an indentation (0 for none). The zero value is the document
// as it is.
type Key struct {
	Ordering negotiate.Ordering
	Indent   uint8
}

// A Representation is the bytes of an answer and their metadata. It is shared and never modified.
type Representation struct {
	// Body is the content, or nil if it is in Items.
	Body []byte
	// Items is the content in pieces.
	Items Items
	// Size of the content in bytes.
	Size int
	// Tag is its strong entity-tag, quotes included.
	Tag []byte
	// Encoding is the content coding of Body.
	Encoding negotiate.Encoding
	// Varies reports whether the form has other codings, so that Vary names Accept-Encoding.
	Varies bool
}

// A form is an ordering and indentation of a document, with its content codings. The uncompressed
// bytes exist from the start; each compressed variant is made when it is first requested.
type form struct {
	identity Representation
	variants [negotiate.Encodings - 1]variant

	// Of a derived form:
	same   *form        // the document as it is, if the ordering is the CMS's; it then has the bytes
	used   atomic.Int64 // the turn of its last use
	leases atomic.Int64 // number of writers; far below zero once dropped
}

type variant struct {
	once sync.Once
	made atomic.Pointer[Representation]
}

func newForm(body []byte, tag string) *form {
	return &form{identity: Representation{
		Body: body, Size: len(body), Tag: []byte(tag), Encoding: negotiate.Identity, Varies: len(body) >= minCompressed,
	}}
}

// made returns the form in the content coding e, or uncompressed if it has no codings; nil if not
// made yet.
func (f *form) made(e negotiate.Encoding) *Representation {
	if f.same != nil {
		f = f.same
	}
	if e == negotiate.Identity || !f.identity.Varies {
		return &f.identity
	}
	return f.variants[e].made.Load()
}

// strong returns the form in the content coding e, compressed strongly. Concurrent callers wait.
func (f *form) strong(e negotiate.Encoding) *Representation {
	if r := f.made(e); r != nil {
		return r
	}
	v := &f.variants[e]
	v.once.Do(func() { v.made.Store(f.compressed(e, strong)) })
	return v.made.Load()
}

// compressed makes a variant. If the coding fails, or does not make the body smaller, it is the
// body as it is.
func (f *form) compressed(e negotiate.Encoding, how effort) *Representation {
	body, err := compress(e, f.identity.Body, how)
	if err != nil || len(body) >= len(f.identity.Body) {
		return &f.identity
	}
	return &Representation{Body: body, Size: len(body), Tag: []byte(cache.ETag(body)), Encoding: e, Varies: true}
}

// size is the size of the form so far, in bytes.
func (f *form) size() int64 {
	if f.same != nil {
		return 0
	}
	n := len(f.identity.Body)
	for i := range f.variants {
		if r := f.variants[i].made.Load(); r != nil && r != &f.identity {
			n += len(r.Body)
		}
	}
	return int64(n)
}

// A Lease keeps a derived form from being dropped while its bytes are being written, when it would
// use memory without being counted. The zero value is a lease of nothing.
type Lease struct{ form *form }

// dropped is the value of leases of a dropped form.
const dropped = math.MinInt64 / 2

// lease takes a lease, which is of nothing if the form has just been dropped.
func (f *form) lease() Lease {
	if f == nil || f.leases.Add(1) < 0 {
		return Lease{}
	}
	return Lease{f}
}

// drop drops the form unless it is being written, and reports whether it did.
func (f *form) drop() bool { return f.leases.CompareAndSwap(0, dropped) }

// Release ends the lease.
func (l Lease) Release() {
	if l.form != nil {
		l.form.leases.Add(-1)
	}
}
