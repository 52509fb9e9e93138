package proxy

import (
	"fmt"
	"slices"
	"sync/atomic"

	"vitrine/cache"
	"vitrine/upstream/shape"
)

// derivedBytes is how much the derived forms of a document may hold together: twice the document, and where that is
// less than a quarter of a megabyte, this much. With the document in Redis and in memory, its own variants and its
// decoded banners, that stays under the budget of eight times the document.
func derivedBytes(document int) int64 { return max(256<<10, 2*int64(document)) }

// Prepared is a document ready to be written: the three resources' content in every form and coding asked for so far.
// It is shared by all requests.
type Prepared struct {
	tag     string // the entity-tag of the document it was made of
	base    *form
	derived *derivedSet
	moment  atomic.Pointer[moment]
}

// Prepare returns the function that prepares the documents of a resource, one call for each document that is
// admitted to memory. A document that a fetch merely confirmed is the same content: it gets what was prepared before,
// so that nothing is compressed or ordered again because a TTL passed.
func Prepare(r shape.Resource) func(*cache.Document) (*Prepared, error) {
	var last atomic.Pointer[Prepared]
	return func(d *cache.Document) (*Prepared, error) {
		if p := last.Load(); p != nil && p.tag == d.ETag {
			return p, nil
		}
		p, err := prepare(r, d)
		if err != nil {
			return nil, err
		}
		last.Store(p)
		return p, nil
	}
}

func prepare(r shape.Resource, d *cache.Document) (*Prepared, error) {
	var banners []shape.Banner
	if r == shape.Banners {
		var err error
		if banners, err = shape.DecodeBanners(d.Body); err != nil {
			return nil, fmt.Errorf("prepare %s: %w", r, err)
		}
	}
	p := &Prepared{tag: d.ETag, base: newForm(d.Body, d.ETag, strong)}
	p.derived = newDerivedSet(derivedBytes(len(d.Body)), func(k formKey) *form {
		body := d.Body
		if k.ordering.n > 0 {
			body = shape.AppendBanners(make([]byte, 0, len(body)), k.ordering.apply(banners))
		}
		if k.indent > 0 {
			body = shape.Indent(make([]byte, 0, 2*len(body)), body, int(k.indent))
		}
		tag := cache.ETag(body)
		if tag == p.tag {
			return p.base // the CMS's order already is the one asked for
		}
		f := newForm(slices.Clip(body), tag, quick)
		f.grew = func() { p.derived.trim(k) }
		return f
	})
	return p, nil
}

// form returns the document in an ordering and an indentation.
func (p *Prepared) form(k formKey) *form {
	if k == (formKey{}) {
		return p.base
	}
	return p.derived.get(k)
}
