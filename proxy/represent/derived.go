package represent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"vitrine/proxy/negotiate"
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
