package represent

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"vitrine/cache"
	"vitrine/proxy/negotiate"
)

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

const (
	// maxDerived bounds the derived forms held of one document.
	maxDerived = 64
	// maxRecent is how many wants that got a plainer answer are remembered.
	maxRecent = 512
)

// derivedBytes bounds the derived forms of a document together: twice the document, and at least a
// quarter of a megabyte. With the document in Redis and in memory, its own variants and its decoded
// banners, that stays under the budget of eight times the document.
func derivedBytes(document int) int64 { return max(256<<10, 2*int64(document)) }

// A want is a requested derived form.
type want struct {
	key    Key
	coding negotiate.Encoding
}

// name tells wants apart.
func (w *want) name() string { return fmt.Sprint(*w) }

// derived are the orderings and indentations of a document. They are bounded in number and bytes;
// the least recently used are dropped first, and those being written stay.
//
// Reading takes no lock: the map is replaced as a whole, never changed.
type derived struct {
	limit int64 // bytes
	forms atomic.Pointer[map[Key]*form]
	turn  atomic.Int64 // counts insertions: the clock of "recently used"

	building singleflight.Group // of wants

	mu     sync.Mutex        // guards the field below, and is held while forms is replaced
	recent map[want]struct{} // recent wants that got a plainer answer
}

func (s *derived) init(document int) {
	s.limit = derivedBytes(document)
	s.forms.Store(&map[Key]*form{})
	s.recent = map[want]struct{}{}
}

// find returns a form, or nil.
func (s *derived) find(k Key) *form {
	f := (*s.forms.Load())[k]
	if f == nil {
		return nil
	}
	// Storing only a changed value keeps the cache line shared between processors while nothing new
	// is requested.
	if turn := s.turn.Load(); f.used.Load() != turn {
		f.used.Store(turn)
	}
	return f
}

// keep adds a form, or makes room for the growth of one that is held, and reports whether there was
// room. A single form may be twice as large as the limit. One that was dropped while it grew is not
// held again: nobody could lease it, so it would never leave.
func (s *derived) keep(k Key, f *form, grows int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(*s.forms.Load())
	present, held := next[k]
	if grows > 0 && present != f {
		return false
	}
	delete(next, k)
	others, own := size(next), f.size()+int64(grows)
	if own > 2*s.limit { // whatever is dropped
		return false
	}
	fits := func() bool {
		return len(next) < maxDerived && (others+own <= s.limit || len(next) == 0 && own <= 2*s.limit)
	}
	byUse := slices.SortedFunc(maps.Values(next), func(a, b *form) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	for _, victim := range byUse {
		if fits() {
			break
		}
		if victim.drop() {
			others -= victim.size()
			maps.DeleteFunc(next, func(_ Key, f *form) bool { return f == victim })
		}
	}
	kept := fits()
	if kept {
		f.used.Store(s.turn.Add(1))
	}
	if kept || held {
		next[k] = f
	}
	s.forms.Store(&next)
	return kept
}

func size(forms map[Key]*form) (bytes int64) {
	for _, f := range forms {
		bytes += f.size()
	}
	return bytes
}

// askedBefore records a want, and reports whether it was recorded before.
func (s *derived) askedBefore(w want) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.recent[w]; ok {
		return true
	}
	if len(s.recent) >= maxRecent {
		clear(s.recent)
	}
	s.recent[w] = struct{}{}
	return false
}
