package cache

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"vitrine/cache/lease"
)

// generations are all that a poll can show in a small world: two data sets, numbers to 4, documents
// fetched at one of two times.
func generations() (all []lease.Generation) {
	all = append(all, lease.Generation{})
	for _, set := range []string{"a", "b"} {
		for seq := int64(1); seq <= 4; seq++ {
			all = append(all, lease.Generation{Set: set, Seq: seq}, lease.Generation{Set: set, Seq: seq, Holds: lease.Placeholder})
			for _, etag := range []string{"x", "y"} {
				all = append(all, lease.Generation{Set: set, Seq: seq, Holds: lease.Document, ETag: etag, FetchedAt: seq})
			}
		}
	}
	return all
}

// TestWhatBecameOfACopyIsItsTable holds the function against docs/design/coherence.md, row by row, over
// all that can be seen.
func TestWhatBecameOfACopyIsItsTable(t *testing.T) {
	count := map[fate]int{}
	for _, was := range append([]lease.Generation{{Seq: -1}}, generations()...) {
		for _, now := range generations() {
			for _, here := range []bool{false, true} {
				for expired := range int64(3) {
					at := &was
					if was.Seq < 0 {
						at = nil
					}
					want := tabled(at, now, here, expired)
					if got := became(at, now, here, expired); got != want {
						t.Errorf("%+v, then %+v, here %t, expired %d: %d, want %d", at, now, here, expired, got, want)
					}
					count[want]++
				}
			}
		}
	}
	if len(count) != 3 {
		t.Error(count)
	}
}

// tabled is the table in the order of its rows.
func tabled(was *lease.Generation, now lease.Generation, here bool, expired int64) fate {
	document := now.Holds == lease.Document
	switch {
	case was == nil && document:
		return kept
	case was == nil && (now.Set == "" || now.Seq == 1 && now.Holds == lease.Placeholder):
		return lost
	case was == nil:
		return purged // a set with a history
	case *was == now:
		return kept
	case was.Set == "": // nothing was there
		if now.Seq <= 1 && now.Holds != lease.Nothing {
			return kept
		}
	case was.Set == now.Set && now.Seq > was.Seq && document:
		return kept
	case was.Set == now.Set && now.Seq < was.Seq:
		return lost
	case was.Set == now.Set && now.Seq == was.Seq && document:
		if was.Holds == lease.Document {
			return lost // the same number with another document
		}
		return kept
	case was.Set == now.Set && now.Seq > was.Seq && now.Holds == lease.Nothing:
		return purged
	case was.Set == now.Set && expired > 0 && expired == was.Seq && now.Seq <= was.Seq+1:
		return lost
	case was.Set == now.Set && was.Holds == lease.Nothing && now.Seq <= was.Seq+1:
		return kept // a placeholder where there was nothing
	case was.Set == now.Set:
		return purged
	}
	if here {
		return purged
	}
	return lost
}

// A story is what happens to one document in Redis, step by step, with the copy of one replica beside it
// and the truth: whether the copy was purged. Everything that clients and other replicas can do is tried,
// with a poll after any of it or none.
type story struct {
	hash, lock, savedHash, savedLock lease.Generation
	saved                            bool
	runs, sets                       int
	copy                             bool
	was                              *lease.Generation
	run                              int
	purged, givenUp                  bool
	clock                            int64
}

func (s *story) now() lease.Generation {
	g := lease.Generation{Set: s.lock.Set, Seq: s.lock.Seq}
	if s.lock.Set != "" && s.hash.Set == s.lock.Set && s.hash.Seq == s.lock.Seq {
		g.Holds, g.ETag, g.FetchedAt = s.hash.Holds, s.hash.ETag, s.hash.FetchedAt
	}
	return g
}

// poll applies what a poll shows to the copy, as the keeper does, and returns what went wrong.
func (s *story) poll() string {
	now := s.now()
	f := became(s.was, now, s.was != nil && s.run == s.runs, 0)
	fault := ""
	switch {
	case !s.copy:
	case f == purged:
		if !s.purged && !s.givenUp && now.Holds != lease.Document { // else that replaces it
			fault = "a copy that nobody purged is dropped"
		}
		s.copy = false
	case f == kept && now != *s.was && now.Holds == lease.Document: // replaced
		s.copy = false
	case s.purged && !s.givenUp:
		fault = "a purged copy stays"
	}
	if now.Holds == lease.Document && f != lost {
		s.copy, s.purged, s.givenUp = true, false, false
	}
	s.was, s.run = &now, s.runs
	return fault
}

func (s story) steps(next func(name string, s story)) {
	do := func(name string, f func(s *story)) {
		g := s
		if f(&g); g != s {
			next(name, g)
		}
	}
	purge := func(s *story) {
		s.purged = s.purged || s.copy && s.now().Holds != lease.Nothing
		s.givenUp = s.givenUp || s.run != s.runs // of a Redis that came back since the last poll
	}
	do("DEL", func(s *story) { purge(s); s.hash = lease.Generation{} })
	do("FLUSHALL", func(s *story) {
		purge(s)
		s.purged = s.purged || s.copy && s.lock.Set != ""
		s.givenUp = s.givenUp || s.was.Set == "" // of what came and went between two polls of an empty one
		s.hash, s.lock = lease.Generation{}, lease.Generation{}
	})
	do("acquire", func(s *story) {
		if s.now().Holds != lease.Nothing {
			return
		}
		if s.lock.Set == "" {
			s.sets++
			s.lock.Set = fmt.Sprint(s.sets)
		}
		s.lock.Seq++
		s.hash = lease.Generation{Set: s.lock.Set, Seq: s.lock.Seq, Holds: lease.Placeholder}
	})
	do("fill", func(s *story) {
		if s.now().Holds == lease.Nothing {
			return
		}
		s.clock++
		s.lock.Seq++
		s.hash = lease.Generation{Set: s.lock.Set, Seq: s.lock.Seq, Holds: lease.Document, ETag: fmt.Sprint(s.clock), FetchedAt: s.clock}
	})
	do("load", func(s *story) { // Redis refuses to store it
		if now := s.now(); !s.copy && now == *s.was && now.Holds == lease.Nothing {
			s.copy, s.purged, s.givenUp = true, false, false
		}
	})
	do("save", func(s *story) { s.savedHash, s.savedLock, s.saved = s.hash, s.lock, true })
	do("crash", func(s *story) {
		s.hash, s.lock = lease.Generation{}, lease.Generation{}
		if s.saved {
			s.hash, s.lock = s.savedHash, s.savedLock
		}
		s.givenUp = s.givenUp || s.purged // a purge that no poll had shown is lost with it
		s.runs++
	})
}

// TestNoPurgedCopyStaysInAnyHistory goes through all histories of so many steps, with a poll after each,
// or not.
func TestNoPurgedCopyStaysInAnyHistory(t *testing.T) {
	count := 0
	var walk func(s story, path []string, left int)
	walk = func(s story, path []string, left int) {
		count++
		if left == 0 || t.Failed() {
			return
		}
		s.steps(func(name string, next story) {
			way := append(slices.Clone(path), name)
			walk(next, way, left-1)
			if next.was != nil && next.now() == *next.was {
				return // nothing to see
			}
			if fault := next.poll(); fault != "" {
				t.Errorf("%s after %v, then a poll", fault, way)
			}
			walk(next, append(way, "poll"), left-1)
		})
	}
	first := story{}
	first.poll()
	walk(first, nil, 7)
	t.Logf("%d histories", count)
}

func TestServeIsItsTable(t *testing.T) {
	for _, s := range []standing{copyNone, copyStale, copyAging, copyEnding, copyFresh} {
		for _, failing := range []bool{false, true} {
			for _, pausing := range []bool{false, true} {
				if got := serve(false, s, failing, pausing); got != doPoll {
					t.Errorf("a view that is too old: %d", got)
				}
				want := map[standing]action{copyFresh: doAnswer, copyEnding: doRenew, copyAging: doRenew, copyStale: doWait, copyNone: doFetch}[s]
				if s == copyStale && failing {
					want = doRenew
				} else if s == copyNone && pausing {
					want = doDecline
				}
				if got := serve(true, s, failing, pausing); got != want {
					t.Errorf("standing %d, failing %t, pausing %t: %d, want %d", s, failing, pausing, got, want)
				}
			}
		}
	}
	c := &cached[int]{ahead: 1, fresh: 2, revalid: 3, usable: 4}
	for now, want := range []standing{copyFresh, copyEnding, copyAging, copyStale, copyNone} {
		if got := c.standing(time.Duration(now)); got != want {
			t.Errorf("at %d: %d, want %d", now, got, want)
		}
	}
}
