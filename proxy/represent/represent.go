// Package represent keeps a document in every variant that visitors request: the CMS's order or
// another, compact or indented, in four content codings.
//
// One request goes through it in this order:
//
//  1. [Document.Get] returns the document in the CMS's order, compact, which always exists; each of
//     its codings is made when it is first requested (compress.go);
//  2. any other variant is looked up, without a lock, in a set that is bounded in number and bytes
//     (variants.go);
//  3. a variant that is not held is built, once however many request it, by at most half the
//     processors, and replaces those that were not requested for the longest;
//  4. while all builders are busy, or all variants held are being written to clients, the answer is
//     the cheapest one: without indentation and content coding; in another order, the document's
//     own bytes item by item (order.go). Unusual requests cost a share of the processors, and no
//     memory.
package represent

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"vitrine/cache"
	"vitrine/proxy/negotiate"
	"vitrine/proxy/processors"
	"vitrine/upstream/guard"
	"vitrine/upstream/shape"
)

// minCompressed is the size in bytes from which a body has compressed variants. A smaller one fits
// in one packet.
const minCompressed = 1400

// A Document is a document ready to be written. It is shared by all requests.
type Document struct {
	Items    int // of the document
	Survey   guard.Survey
	identity Representation
	codings  [negotiate.Identity]func() *Representation // each made once
	banners  banners
	derived  derived
	builders processors.Half
}

// errForm is a document that would have to be repaired first.
var errForm = errors.New("it is not in the documented form")

// Prepare returns the function that prepares the documents of a resource, called for each document
// admitted to memory. Anybody may have written to Redis, so one that is not exactly as
// [shape.Normalize] writes it is an error. A document that a fetch merely confirmed reuses the
// prepared one, so that nothing is checked, compressed or ordered again because a TTL passed.
// Derived variants are built while there are builders, of all documents together.
func Prepare(r shape.Resource, builders processors.Half) func(*cache.Document) (*Document, error) {
	var last atomic.Pointer[Document]
	return func(d *cache.Document) (*Document, error) {
		if p := last.Load(); p != nil && string(p.identity.Tag) == d.ETag {
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
			p.banners = doc.Banners()
		}
		p.Items, p.Survey = doc.Items, doc.Survey
		p.identity = *newIdentity(d.Body, d.ETag)
		for e := range negotiate.Encoding(len(p.codings)) {
			p.codings[e] = sync.OnceValue(func() *Representation { return p.identity.compressed(e, strong) })
		}
		p.derived.init(len(d.Body))
		last.Store(p)
		return p, nil
	}
}

func newIdentity(body []byte, tag string) *Representation {
	return &Representation{Body: body, Size: len(body), Tag: []byte(tag), Encoding: negotiate.Identity, Varies: len(body) >= minCompressed}
}

// compressed is the identity in a content coding. If that fails, or does not make the body smaller,
// it is the identity itself.
func (r *Representation) compressed(e negotiate.Encoding, how effort) *Representation {
	body, err := compress(e, r.Body, how)
	if err != nil || len(body) >= len(r.Body) {
		return r
	}
	return &Representation{Body: body, Size: len(body), Tag: []byte(cache.ETag(body)), Encoding: e, Varies: true}
}

// own is the document in the CMS's order, compact. Concurrent callers wait for a coding.
func (d *Document) own(e negotiate.Encoding) *Representation {
	if e == negotiate.Identity || !d.identity.Varies {
		return &d.identity
	}
	return d.codings[e]()
}

// Get returns the document in an ordering, an indentation and a content coding, or in a plainer
// variant if that would cost too much now.
func (d *Document) Get(k Key, e negotiate.Encoding) *Representation {
	if k == (Key{}) {
		return d.own(e)
	}
	if r := d.derived.find(want{k, e}); r != nil {
		return r
	}
	return d.build(want{k, e})
}

// build answers a want that is not held, once for all requests that want it meanwhile.
func (d *Document) build(w want) *Representation {
	v, _, _ := d.derived.building.Do(w.name(), func() (any, error) {
		if r := d.derived.find(w); r != nil { // built meanwhile
			return r, nil
		}
		return d.make(w), nil
	})
	rep, _ := v.(*Representation)
	return rep
}

// make builds a variant if a builder is free; otherwise a plainer one, for which it waits for a
// builder only if it has to be ordered.
func (d *Document) make(w want) *Representation {
	identity := want{w.key, negotiate.Identity}
	if !d.builders.TryTake() {
		if r := d.derived.find(identity); r != nil {
			return r
		}
		if w.key.Ordering == (negotiate.Ordering{}) {
			return &d.identity
		}
		d.builders.Take()
		defer d.builders.Give()
		return d.plain(d.banners.order(w.key.Ordering))
	}
	defer d.builders.Give()
	r := d.derived.find(identity)
	if r == nil {
		order, size := d.banners.order(w.key.Ordering), 0
		if r = d.render(order, int(w.key.Indent)); r != &d.identity {
			size = r.Size
		}
		if !d.derived.keep(identity, r, size) {
			return d.plain(order)
		}
	}
	if w.coding == negotiate.Identity {
		return r
	}
	if r == &d.identity {
		own := d.own(w.coding)
		d.derived.keep(w, own, 0)
		return own
	}
	coded := r
	if r.Varies {
		coded = r.compressed(w.coding, quick)
	}
	if coded == r { // its bytes are counted twice, but also once the other is dropped
		twin := *r
		coded = &twin
	}
	if d.derived.keep(w, coded, coded.Size) {
		return coded
	}
	return r
}

// render is the document in an order, nil for the CMS's, with an indentation.
func (d *Document) render(order []int32, indent int) *Representation {
	body := d.identity.Body
	if order == nil && indent == 0 {
		return &d.identity
	}
	if order != nil {
		body = items{d.banners, order}.appendTo(make([]byte, 0, len(body)))
	}
	if indent > 0 {
		body = bytes.Clone(shape.Indent(make([]byte, 0, 2*len(body)), body, indent)) // to its size
	}
	return newIdentity(body, cache.ETag(body))
}

// plain is the document in an order, nil for the CMS's, at minimal cost.
func (d *Document) plain(order []int32) *Representation {
	if order == nil {
		return &d.identity
	}
	items := items{d.banners, order}
	return &Representation{
		items: items, Size: d.identity.Size, Tag: []byte(items.tag()), Encoding: negotiate.Identity, Varies: d.identity.Varies,
	}
}
