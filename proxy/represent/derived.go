package represent

import (
	"maps"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"vitrine/proxy/negotiate"
	"vitrine/upstream/shape"
)

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

// name tells wants apart: a byte for each term, and those of the indentation and the coding.
func (w *want) name() string {
	name := make([]byte, 0, shape.BannerFieldCount+2)
	for _, t := range w.key.Ordering.Terms() {
		b := t.Field << 1
		if t.Descending {
			b++
		}
		name = append(name, b)
	}
	return string(append(name, w.key.Indent, byte(w.coding)))
}

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
	fits := func() bool {
		return len(next) < maxDerived && (others+own <= s.limit || len(next) == 0 && own <= 2*s.limit)
	}
	for !fits() {
		victim, ok := dropOldest(next)
		if !ok {
			break
		}
		others -= next[victim].size()
		delete(next, victim)
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

// dropOldest drops the least recently used form that is not being written.
func dropOldest(forms map[Key]*form) (victim Key, ok bool) {
	for range forms { // the oldest may begin to be written meanwhile
		first := int64(-1)
		for k, f := range forms {
			if used := f.used.Load(); f.leases.Load() == 0 && (first < 0 || used < first) {
				first, victim = used, k
			}
		}
		if first < 0 {
			return victim, false
		}
		if forms[victim].drop() {
			return victim, true
		}
	}
	return victim, false
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
