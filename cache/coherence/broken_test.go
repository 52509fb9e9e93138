package coherence

import (
	"context"
	"sync"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cache/poll"
	"vitrine/cmd/testkit"
)

func TestCheckerHoldsAnswersToTheBound(t *testing.T) {
	const ms = time.Millisecond
	tests := map[string]struct {
		purge purged
		asked time.Duration
		old   bool // said to be stale
		found bool
	}{
		"asked for before the Bound":              {purge: purged{version: 2, acked: 100 * ms}, asked: 149 * ms},
		"asked for after the Bound":               {purge: purged{version: 2, acked: 100 * ms}, asked: 151 * ms, found: true},
		"asked for long before the purge":         {purge: purged{version: 2, acked: 100 * ms}, asked: 1 * ms},
		"of the purge's version":                  {purge: purged{version: 1, acked: 100 * ms}, asked: 500 * ms},
		"stale after a hard purge":                {purge: purged{version: 2, acked: 100 * ms}, asked: 151 * ms, old: true, found: true},
		"stale after a soft purge":                {purge: purged{version: 2, acked: 100 * ms, soft: true}, asked: 151 * ms, old: true},
		"not said to be stale after a soft one":   {purge: purged{version: 2, acked: 100 * ms, soft: true}, asked: 151 * ms, found: true},
		"asked for before a soft purge's Bound":   {purge: purged{version: 2, acked: 100 * ms, soft: true}, asked: 149 * ms},
		"of a version after that of a soft purge": {purge: purged{version: 1, acked: 100 * ms, soft: true}, asked: 151 * ms},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newChecker(Bound)
			good, bad := c.observer("good"), c.observer("bad")
			c.acknowledged(test.purge)
			for at := time.Duration(0); at < 600*ms; at += ms {
				good.saw(at, 2, cache.Status{})
			}
			bad.saw(test.asked, 1, cache.Status{Stale: test.old})
			good.saw(600*ms, 3, cache.Status{})
			if v := c.check(); (len(v.Violations) > 0) != test.found {
				t.Errorf("found %q", v.Violations)
			}
		})
	}
}

// A model is a cache without Redis, of several replicas, right or deliberately broken.
type model struct {
	mu        sync.Mutex
	origins   map[string]*Origin
	replicas  []*modelReplica
	late      time.Duration // replica 2 hears of purges this much later
	deafAfter int           // so many purges, the second replica receives none
	admits    bool          // fills whose fetch began before a purge are admitted
	purges    int
	tasks     sync.WaitGroup
}

type modelReplica struct {
	m    *model
	held map[string]int64
	gen  map[string]int
}

func newModel(m *model, origins map[string]*Origin) map[string]Replica {
	m.origins = origins
	for range 2 {
		m.replicas = append(m.replicas, &modelReplica{m: m, held: map[string]int64{}, gen: map[string]int{}})
	}
	return map[string]Replica{"replica 1": m.replicas[0], "replica 2": m.replicas[1]}
}

func (r *modelReplica) Get(ctx context.Context, key string) (int64, cache.Status, error) {
	for {
		r.m.mu.Lock()
		version, ok := r.held[key]
		gen := r.gen[key]
		r.m.mu.Unlock()
		if ok {
			return version, cache.Status{}, nil
		}
		version, err := r.m.origins[key].Fetch(ctx, "")
		if err != nil {
			return 0, cache.Status{}, err
		}
		r.m.mu.Lock()
		if r.gen[key] == gen || r.m.admits {
			r.held[key] = version
		}
		r.m.mu.Unlock()
	}
}

func (r *modelReplica) forget(key string) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.gen[key]++
	delete(r.held, key)
}

func (m *model) purge(ctx context.Context, _, key string) ([]string, error) {
	m.replicas[0].forget(key)
	m.mu.Lock()
	m.purges++
	deaf := m.deafAfter > 0 && m.purges > m.deafAfter
	m.mu.Unlock()
	switch {
	case deaf:
	case m.late > 0:
		m.tasks.Go(func() { poll.Sleep(ctx, m.late); m.replicas[1].forget(key) })
	default:
		m.replicas[1].forget(key)
	}
	return []string{key}, nil
}

func TestCheckerFindsABrokenCacheAndNothingInASoundOne(t *testing.T) {
	models := map[string]struct {
		model *model
		found bool
	}{
		"sound":                        {&model{}, false},
		"late fills admitted":          {&model{admits: true}, true},
		"purges no longer received":    {&model{deafAfter: 50}, true},
		"purges received after 200 ms": {&model{late: 200 * time.Millisecond}, true},
	}
	for name, test := range models {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			origins := NewOrigins(5*time.Millisecond, Keys...)
			c := &Campaign{Origins: origins, Replicas: newModel(test.model, origins), Purge: test.model.purge, Kinds: []string{"purge"}}
			c.Begin(t)
			defer test.model.tasks.Wait()
			testkit.Within(t, time.Minute, "the purges are made", func() bool { return c.Acked.Load() >= purges })
			v := c.End()
			if (len(v.Violations) > 0) != test.found {
				t.Errorf("found %d violations in %d answers: %q", len(v.Violations), v.Answers, v.Violations)
			}
			t.Logf("%d violations in %d answers after %d purges", len(v.Violations), v.Answers, v.Purges)
		})
	}
}
