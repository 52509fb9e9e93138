// Package represent keeps a document in every form that visitors request: the CMS's order or
// another, compact or indented, in four content codings.
//
// One request goes through it in this order:
//
//  1. [Document.Get] finds the representation of a form and a coding. The document in the CMS's
//     order, compact, always exists; each of its codings is made when it is first requested
//     (form.go, compress.go);
//  2. every other form is looked up in a set that is bounded in number and bytes (derived.go).
//     Reading takes no lock;
//  3. a form that is not there is built: once however many ask for it, by half as many builders as
//     there are processors (build.go), and kept in place of those that were not asked for the
//     longest;
//  4. while builders are busy with what others ask for, or no room can be made since all that is
//     kept is being written to somebody, the answer is the form at the least cost: without
//     indentation and content coding, and in another order by writing the document's own bytes item
//     by item (order.go). What strangers ask for in ways of their own costs a share of the
//     processors, and memory for none of it.
package represent

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	"vitrine/cache"
	"vitrine/proxy/negotiate"
	"vitrine/upstream/shape"
)

// A Key names a form: an ordering and an indentation (0 for none). The zero value is the document
// as it is.
type Key struct {
	Ordering negotiate.Ordering
	Indent   uint8
}

// A Document is a document ready to be written. It is shared by all requests.
type Document struct {
	base    form
	banners banners
	derived derived
}

// errForm is a document that would have to be repaired first.
var errForm = errors.New("it is not in the documented form")

// Prepare returns the function that prepares the documents of a resource, called for each document
// admitted to memory. Anybody may have written to Redis, so one that is not exactly as
// [shape.Normalize] writes it is an error. A document that a fetch merely confirmed reuses the
// prepared one, so that nothing is checked, compressed or ordered again because a TTL passed.
func Prepare(r shape.Resource) func(*cache.Document) (*Document, error) {
	var last atomic.Pointer[Document]
	return func(d *cache.Document) (*Document, error) {
		if p := last.Load(); p != nil && string(p.base.identity.Tag) == d.ETag {
			return p, nil
		}
		p := new(Document)
		doc, err := shape.Normalize(r, d.Body)
		if err == nil && !bytes.Equal(doc.Body, d.Body) {
			err = errForm
		}
		if err != nil {
			return nil, fmt.Errorf("prepare %s: %w", r, err)
		}
		if doc.Body = d.Body; r == shape.Banners {
			p.banners = banners{doc.Body, doc.Banners()}
		}
		p.base.init(d.Body, d.ETag)
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
