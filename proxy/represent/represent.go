// Package represent keeps a document in every form that visitors request: the CMS's order or
// another, compact or indented, in four content codings.
//
// One request goes through it in this order:
//
//  1. [Document.Get] returns the document in the CMS's order, compact, which always exists; each of
//     its codings is made when it is first requested (forms.go, compress.go);
//  2. any other form is looked up, without a lock, in a set that is bounded in number and bytes
//     (forms.go);
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
