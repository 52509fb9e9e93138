package proxy

import (
	"maps"
	"sync"
	"sync/atomic"
)

// maxDerived is how many derived forms of one document are held at most.
const maxDerived = 64

// A formKey names a form: an ordering and an indentation (0 for none). The zero value is the document as it is.
type formKey struct {
	ordering ordering
	indent   uint8
}

// A derivedSet holds the forms of a document that clients asked for in ways of their own, so that each is made once.
// It is bounded by their number and their bytes; the least recently used go first.
//
// Reading takes no lock: the map is replaced as a whole, never changed.
type derivedSet struct {
	build func(formKey) *form
	limit int64 // bytes

	forms atomic.Pointer[map[formKey]*derived]
	turn  atomic.Int64 // counts insertions: the clock by which "recently used" is told
	mu    sync.Mutex   // held while forms is replaced
}

type derived struct {
	once sync.Once
	form atomic.Pointer[form]
	used atomic.Int64 // the turn in which it was last asked for
}

func newDerivedSet(limit int64, build func(formKey) *form) *derivedSet {
	s := &derivedSet{build: build, limit: limit}
	s.forms.Store(&map[formKey]*derived{})
	return s
}

// get returns the form, which it makes if it is not held. Whoever asks meanwhile for the same one waits for it.
func (s *derivedSet) get(k formKey) *form {
	d := (*s.forms.Load())[k]
	if d == nil {
		d = s.insert(k)
	}
	// Storing only what differs keeps the line of memory shared between processors while nothing new is asked for.
	if turn := s.turn.Load(); d.used.Load() != turn {
		d.used.Store(turn)
	}
	if f := d.form.Load(); f != nil {
		return f
	}
	d.once.Do(func() {
		d.form.Store(s.build(k))
		s.trim(k)
	})
	return d.form.Load()
}

// insert reserves a place for the form.
func (s *derivedSet) insert(k formKey) *derived {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := *s.forms.Load()
	if d := held[k]; d != nil {
		return d
	}
	d := new(derived)
	d.used.Store(s.turn.Add(1))
	next := maps.Clone(held)
	next[k] = d
	s.forms.Store(&next)
	return d
}

// trim drops the least recently used forms until the rest are within the bounds. What is being answered out of a
// dropped form stays valid. The form just made, keep, is not dropped: it is wanted.
func (s *derivedSet) trim(keep formKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := *s.forms.Load()
	bytes := size(held)
	if len(held) <= maxDerived && bytes <= s.limit {
		return
	}
	next := maps.Clone(held)
	for len(next) > 1 && (len(next) > maxDerived || bytes > s.limit) {
		k := oldest(next, keep)
		bytes -= next[k].size()
		delete(next, k)
	}
	s.forms.Store(&next)
}

func size(forms map[formKey]*derived) (bytes int64) {
	for _, d := range forms {
		bytes += d.size()
	}
	return bytes
}

// size is what the form holds in bytes; 0 for the document itself, which an ordering can come to.
func (d *derived) size() int64 {
	f := d.form.Load()
	if f == nil || f.grew == nil {
		return 0
	}
	return int64(f.size())
}

// oldest is the least recently used of at least two forms, other than keep.
func oldest(forms map[formKey]*derived, keep formKey) (oldest formKey) {
	first := int64(-1)
	for k, d := range forms {
		if used := d.used.Load(); k != keep && (first < 0 || used < first) {
			first, oldest = used, k
		}
	}
	return oldest
}
