package represent

import (
	"runtime"

	"vitrine/cache"
	"vitrine/proxy/negotiate"
	"vitrine/upstream/shape"
)

// builders has a slot for each derived form being built: half the processors, so that the others
// answer. It is global, as they are.
var builders = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// A want is a requested derived form.
type want struct {
	key    Key
	coding negotiate.Encoding
}

// A building is a derived form being built, for all requests that want it meanwhile.
type building struct {
	done chan struct{} // closed when the fields below are set
	rep  *Representation
	form *form // leased by a writer; nil for none
}

// build answers a want that is not held.
func (d *Document) build(w want) (*Representation, Lease) {
	s := &d.derived
	s.mu.Lock()
	if b := s.building[w]; b != nil {
		s.mu.Unlock()
		<-b.done
		return b.rep, b.form.lease()
	}
	b := &building{done: make(chan struct{}), rep: &d.base.identity} // also the answer after a panic
	s.building[w] = b
	again := s.askedBefore(w)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.building, w)
		s.mu.Unlock()
		close(b.done)
	}()
	b.rep, b.form = d.make(w, again)
	return b.rep, b.form.lease()
}

// make builds the form if a builder is free, or if it was wanted before; otherwise a plainer one,
// for which it waits for a builder only if it has to be ordered.
func (d *Document) make(w want, again bool) (*Representation, *form) {
	select {
	case builders <- struct{}{}:
		again = true
	default:
		if f := d.derived.find(w.key); f != nil && !again {
			return f.made(negotiate.Identity), f
		}
		if w.key.Ordering == (negotiate.Ordering{}) && !again {
			return &d.base.identity, nil
		}
		builders <- struct{}{}
	}
	defer func() { <-builders }()

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
		return &form{same: &d.base}
	}
	if order != nil {
		body = d.banners.items(order).appendTo(make([]byte, 0, len(d.banners.body)))
	}
	if indent > 0 {
		body = fitted(shape.Indent(make([]byte, 0, 2*len(body)), body, indent))
	}
	return newForm(body, cache.ETag(body))
}

// fitted returns body without much unused capacity.
func fitted(body []byte) []byte {
	if cap(body)-len(body) <= len(body)/8 {
		return body
	}
	return append(make([]byte, 0, len(body)), body...)
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
