package coherence

import (
	"math/rand/v2"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cache/redistest"
)

// rounds is how often each fault comes and goes in a full run.
const rounds = 6

// TestNoFaultBringsBackWhatWasPurged goes on reading and purging while something breaks and heals
// again. Only answers that say that Redis is away are exempt; those of the cut-off replica that do
// not say so yet are not.
func TestNoFaultBringsBackWhatWasPurged(t *testing.T) {
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, trouble)
			origins := newOrigins(5*time.Millisecond, keys...)
			origins["catalogue"].size = trouble.size
			// Who must not take Redis for unreachable waits for it, however busy the machine is.
			first, others, url := setup{timeout: patient}, setup{timeout: patient}, s.server.URL()
			if trouble.away {
				first.timeout = 0
			}
			if trouble.away && trouble.all {
				others.timeout = 0
			}
			if trouble.standby {
				url = s.way.url()
			}
			nodes := append(startFleet(t, s.way.url(), 1, origins, first), startFleet(t, url, 3, origins, others)...)
			c := &campaign{origins: origins, replicas: named(nodes), purge: s.purge(trouble), kinds: all, soft: soft, bound: trouble.bound}
			c.begin(t)
			s.chance = rand.New(rand.NewPCG(c.seed, 0))

			hit := map[string]replica{"replica 1": nodes[0]}
			if trouble.all {
				hit = c.replicas
			}
			purges := func(n int64) {
				t.Helper()
				goal := c.acked.Load() + n
				eventually(t, "purges are acknowledged", func() bool { return c.acked.Load() >= goal })
			}
			for range count(rounds) {
				for name := range c.replicas {
					c.forget(name)
					eventually(t, name+" answers from memory", func() bool { return c.saw(name, cache.DetailMemory) })
				}
				purges(20)
				trouble.come(s)
				for name := range hit {
					c.forget(name)
					if trouble.away {
						eventually(t, name+" says that redis is away", func() bool { return c.saw(name, cache.DetailRedisAway) })
					}
				}
				switch {
				case !trouble.all:
					purges(20)
				case !trouble.away:
					pause(t.Context(), 2*bound)
				}
				trouble.goes(s)
				purges(20)
			}
			for name := range c.replicas {
				c.forget(name)
				eventually(t, name+" answers from memory again", func() bool { return c.saw(name, cache.DetailMemory) })
			}
			v := c.end()
			v.report(t, c)
			for name, away := range c.away {
				if hit[name] == nil && away.Load() > 0 {
					t.Errorf("%s, which nothing happened to, said that redis is away", name)
				}
			}
		})
	}
}

// TestCutOffReplicaStopsTrustingMemoryInTime purges in the very moment in which nothing passes any
// more between a replica and its server, and looks at how long the replica goes on answering as if
// nothing were wrong.
func TestCutOffReplicaStopsTrustingMemoryInTime(t *testing.T) {
	t.Parallel()
	ways := map[string]struct {
		sever  func(*link)
		rounds int
	}{
		"cut":                           {(*link).cut, 5}, // few: the pauses between two attempts to connect grow
		"hung":                          {(*link).hang, 12},
		"the watching connection alone": {(*link).deafen, 30},
	}
	for name, test := range ways {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			way := newLink(t, server.Addr)
			origins := newOrigins(0, "banners")
			n := startFleet(t, way.url(), 1, origins, setup{options: long})[0]
			client := server.Client()
			var trusted delays
			// How soon after the purge somebody asks is the machine's doing.
			for round, least := int64(0), count(test.rounds); round < least || name != "cut" && trusted.quantile(1) == 0 && round < 10*least; round++ {
				eventually(t, "memory", func() bool {
					_, status, err := n.get(t.Context(), "banners")
					return err == nil && status.Detail == cache.DetailMemory
				})
				test.sever(way)
				want := origins["banners"].version.Add(1)
				must(t, client.Del(t.Context(), prefix+"banners").Err())
				acked := time.Now()
				last := time.Duration(0)
				for {
					asked := time.Since(acked)
					version, status, err := n.get(t.Context(), "banners")
					must(t, err)
					if version >= want || status.Detail == cache.DetailRedisAway {
						break
					}
					last = asked
				}
				if last > bound {
					t.Errorf("an answer asked for %v after the purge was acknowledged is old and does not say that redis is away", last)
				}
				trusted = append(trusted, last)
				way.heal()
				eventually(t, "purges are heard", n.store.Listening)
			}
			t.Logf("old answers that did not say that redis is away: %v", trusted)
			if name != "cut" && trusted.quantile(1) == 0 { // a connection that is closed is noticed at once
				t.Error("there were none at all: nothing was tried")
			}
		})
	}
}
