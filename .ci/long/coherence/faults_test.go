package coherence

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cache/poll"
)

// How the CMS and the operator behave while something breaks and heals again.
const (
	purging = iota // the CMS works, and purges go on
	down           // the CMS is down from before until after it, and nobody purges
	after          // purges go on until before it heals; then the CMS is down
	mixed          // purges go on, and the CMS works and fails in turn
	modes
)

// TestNoFaultBringsBackWhatWasPurged goes on reading and purging while something breaks and heals
// again. Only answers that say that Redis is away are exempt; those of the cut-off replica that do
// not say so yet are not. While the CMS fails, whoever has answered with a copy that nobody has
// purged since goes on doing so.
func TestNoFaultBringsBackWhatWasPurged(t *testing.T) {
	for i, name := range slices.Sorted(maps.Keys(troubles)) {
		trouble := troubles[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, trouble)
			s.fleet(trouble, *seed)
			for round := range count(t, 1) {
				s.round(trouble, int((*seed+uint64(i)+uint64(round))%modes))
			}
			s.answered(trouble)
			v := s.c.End()
			s.c.Report(t, v)
			judge(t, v)
			for name := range s.c.Replicas {
				if !trouble.all && name != "replica 1" && s.c.Away(name) > 0 {
					t.Errorf("%s, which nothing happened to, said that redis is away", name)
				}
			}
		})
	}
}

// purges waits until so many more are acknowledged.
func (s *scene) purges(n int64) {
	s.t.Helper()
	goal := s.c.Acked.Load() + n
	eventually(s.t, "purges are acknowledged", func() bool { return s.c.Acked.Load() >= goal })
}

// refuses says that Redis stores nothing from the start.
func (what trouble) refuses() bool { return len(what.args) > 0 && what.absent && !what.replicates }

// answered waits until all have answered from memory.
func (s *scene) answered(what trouble) {
	s.t.Helper()
	for name := range s.c.Replicas {
		s.c.Forget(name)
		eventually(s.t, name+" answers from memory", func() bool {
			return s.c.Saw(name, cache.DetailMemory) || what.refuses() && s.c.Saw(name, cache.DetailRedisRefused)
		})
	}
}

// round has what happens come and go once.
func (s *scene) round(what trouble, mode int) {
	t, c := s.t, s.c
	t.Helper()
	t.Log([]string{"purging", "down", "after", "mixed"}[mode])
	refused := what.refuses()
	s.answered(what)
	s.careful.Store(mode != purging)
	c.Apart.Store(mode != purging)
	if !refused {
		s.purges(20)
	}
	c.Unheld.Store(mode != purging && what.loses)
	if what.before != nil {
		what.before(s)
		c.Quiet.Store(false)
	}
	var failing sync.WaitGroup
	worksAgain := make(chan struct{})
	switch mode {
	case down:
		c.Settle(t)
		c.Fail(true)
		poll.Sleep(t.Context(), 600*time.Millisecond) // what was filled is known to all
	case mixed:
		chance := time.Duration(100+s.chance.IntN(200)) * time.Millisecond
		failing.Go(func() {
			for works := false; ; works = !works {
				c.Fail(!works)
				select {
				case <-time.After(chance):
				case <-worksAgain:
					return
				}
			}
		})
	}
	if what.parts || what.away || what.usual {
		c.PartSoon()
		poll.Sleep(t.Context(), 2*Bound) // the last flush is received
	}
	c.Forgets.Store(what.loses)
	what.come(s)
	for name := range c.Replicas {
		if what.away && mode == purging && (what.all || name == "replica 1") {
			c.Forget(name)
			eventually(t, name+" says that redis is away", func() bool { return c.Saw(name, cache.DetailRedisAway) })
		}
	}
	if mode == purging && !what.all && !what.absent { // else there may be nothing to purge any more
		s.purges(20)
	} else {
		poll.Sleep(t.Context(), 2*Bound)
		s.pause(700 * time.Millisecond)
	}
	if mode == after {
		if c.Hush(); !what.all {
			c.PurgeAll(t.Context())
		}
		c.Fail(true)
	}
	what.goes(s)
	if mode != purging {
		poll.Sleep(t.Context(), 300*time.Millisecond)
		s.pause(500 * time.Millisecond)
		close(worksAgain)
		failing.Wait()
		c.Fail(false)
	}
	for name, r := range c.Replicas {
		eventually(t, name+" receives purges", r.(*slot).node.Load().Store.Answering)
	}
	poll.Sleep(t.Context(), 2*Bound)
	s.answered(what) // all listen
	eventually(t, "all have fetched what was lost", func() bool { return !c.HasLost(t.Context()) })
	c.Forgets.Store(false)
	c.Apart.Store(false)
	c.Unheld.Store(false)
	c.Quiet.Store(false)
	if !refused {
		s.purges(20)
	}
}
