package proxy

import (
	"sync"
	"sync/atomic"

	"vitrine/cache"
)

// minCompressed is the size in bytes from which a body has compressed variants.
// A smaller one fits into one packet anyhow.
const minCompressed = 1400

// A representation is what goes over the wire: bytes and what is said of them.
type representation struct {
	body []byte
	tag  []byte // its strong entity-tag, quotes included
	enc  encoding
}

// A form is one way to write a document down (an order, an indentation) with its content codings.
// The uncompressed bytes are there from the start; each compressed variant is made when it is first asked for, once,
// however many ask for it at that moment.
type form struct {
	identity representation
	variants [encodings - 1]variant
	effort   effort
	// grew is called when a variant was added, unless it is nil.
	grew func()
}

type variant struct {
	once sync.Once
	made atomic.Pointer[representation]
}

func newForm(body []byte, tag string, how effort) *form {
	return &form{identity: representation{body: body, tag: []byte(tag), enc: identityEncoding}, effort: how}
}

// varies reports whether there are compressed variants, which is when Vary names Accept-Encoding.
func (f *form) varies() bool { return len(f.identity.body) >= minCompressed }

// size is what the form holds so far, in bytes.
func (f *form) size() int {
	n := len(f.identity.body)
	for i := range f.variants {
		if r := f.variants[i].made.Load(); r != nil && r != &f.identity {
			n += len(r.body)
		}
	}
	return n
}

// represent returns the form in the content coding e, or without any where the form has no variants.
func (f *form) represent(e encoding) *representation {
	if e == identityEncoding || !f.varies() {
		return &f.identity
	}
	v := &f.variants[e]
	if r := v.made.Load(); r != nil {
		return r
	}
	v.once.Do(func() {
		v.made.Store(f.make(e))
		if f.grew != nil {
			f.grew()
		}
	})
	return v.made.Load()
}

// make compresses. A coding that fails, or that makes the body no smaller, is answered with the body as it is.
func (f *form) make(e encoding) *representation {
	body, err := compress(e, f.identity.body, f.effort)
	if err != nil || len(body) >= len(f.identity.body) {
		return &f.identity
	}
	return &representation{body: body, tag: []byte(cache.ETag(body)), enc: e}
}
