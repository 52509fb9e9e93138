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

// A Representation is the content of an answer and its metadata. It is shared and never modified.
type Representation struct {
	// Body is the content; nil where only Stream has it.
	Body []byte
	// Size of the content in bytes.
	Size int
	// Tag is its strong entity-tag, quotes included.
	Tag []byte
	// Encoding is the content coding.
	Encoding negotiate.Encoding
	// Varies reports whether there are other codings, so that Vary names Accept-Encoding.
	Varies bool

	of    *held // which can be dropped; nil for the document's own
	items items // the content if Body is nil
}

// maxDerived bounds the derived variants held of one document.
const maxDerived = 64

// derivedBytes bounds the derived variants of a document together: twice the document, and at least
// a quarter of a megabyte. With the document in Redis and in memory, its own codings and its decoded
// banners, that stays under the budget of eight times the document.
func derivedBytes(document int) int64 { return max(256<<10, 2*int64(document)) }

// A Key names an ordering and an indentation (0 for none). The zero value is the document as it is.
type Key struct {
	Ordering negotiate.Ordering
	Indent   uint8
}

// A want is a requested variant.
type want struct {
	key    Key
	coding negotiate.Encoding
}

// name tells wants apart.
func (w *want) name() string { return fmt.Sprint(*w) }

// held is a variant in the set.
type held struct {
	rep    *Representation
	size   int64        // bytes; 0 if another variant, or the document, has them
	used   atomic.Int64 // the turn of its last use
	leases atomic.Int64 // number of open streams
}

// derived are the variants of a document in other orders, indentations and codings. They are
// bounded in number and bytes; the least recently used are dropped first, and those being written
// stay.
//
// Reading takes no lock: the map is replaced as a whole, never changed.
type derived struct {
	limit    int64 // bytes
	all      atomic.Pointer[map[want]*held]
	turn     atomic.Int64       // counts insertions: the clock of "recently used"
	building singleflight.Group // of wants
	mu       sync.Mutex         // held while all is replaced
}

func (s *derived) init(document int) {
	s.limit = derivedBytes(document)
	s.all.Store(&map[want]*held{})
}

// find returns a variant, or nil.
func (s *derived) find(w want) *Representation {
	h := (*s.all.Load())[w]
	if h == nil {
		return nil
	}
	// Storing only a changed value keeps the cache line shared between processors while nothing new
	// is requested.
	if turn := s.turn.Load(); h.used.Load() != turn {
		h.used.Store(turn)
	}
	return h.rep
}

// keep adds a variant, whose bytes may be held already, and reports whether there was room. A single
// one may be twice as large as the limit.
func (s *derived) keep(w want, rep *Representation, size int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, total := maps.Clone(*s.all.Load()), int64(size)
	if total > 2*s.limit { // whatever is dropped
		return false
	}
	for _, h := range next {
		total += h.size
	}
	fits := func() bool { return len(next) < maxDerived && (total <= s.limit || len(next) == 0) }
	byUse := slices.SortedFunc(maps.Keys(next), func(a, b want) int { return cmp.Compare(next[a].used.Load(), next[b].used.Load()) })
	for _, victim := range byUse {
		if fits() {
			break
		}
		if h := next[victim]; h.leases.Load() == 0 {
			total -= h.size
			delete(next, victim)
		}
	}
	kept := fits()
	if kept {
		h := &held{rep: rep, size: int64(size)}
		h.used.Store(s.turn.Add(1))
		if size > 0 {
			rep.of = h
		}
		next[w] = h
	}
	s.all.Store(&next)
	return kept
}
