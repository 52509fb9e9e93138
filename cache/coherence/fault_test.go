package coherence

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cache/redistest"
)

// rounds is how often each fault comes and goes in a full run.
const rounds = 6

// A trouble is something that happens to a server or to the way of one replica to it.
type trouble struct {
	args   []string // of the server
	all    bool     // it reaches all replicas, not only the first
	absent bool     // Redis may not hold what is served: only a purge that removes something counts, since of no other it says anything
	away   bool     // it lasts until the replicas say that Redis is away
	come   func(*redistest.Server, *link)
	goes   func(*redistest.Server, *link)
}

var troubles = map[string]trouble{
	"the server dies and forgets": {
		all: true, away: true,
		come: func(s *redistest.Server, _ *link) { s.Kill() }, goes: func(s *redistest.Server, _ *link) { s.Restart() },
	},
	"the server dies and remembers": {
		// With always, what was acknowledged is on the disk.
		args: []string{"--appendonly", "yes", "--appendfsync", "always"}, all: true, away: true,
		come: func(s *redistest.Server, _ *link) { s.Kill() }, goes: func(s *redistest.Server, _ *link) { s.Restart() },
	},
	"the server hangs": {
		all: true, away: true,
		come: func(s *redistest.Server, _ *link) { s.Pause() }, goes: func(s *redistest.Server, _ *link) { s.Resume() },
	},
	"a replica is cut off": {
		away: true,
		come: func(_ *redistest.Server, l *link) { l.cut() }, goes: func(_ *redistest.Server, l *link) { l.heal() },
	},
	"a replica's packets vanish": {
		away: true,
		come: func(_ *redistest.Server, l *link) { l.hang() }, goes: func(_ *redistest.Server, l *link) { l.heal() },
	},
	"a replica's connections break": {
		come: func(_ *redistest.Server, l *link) { l.drop() }, goes: func(_ *redistest.Server, _ *link) {},
	},
	"a replica's watching connection hangs": {
		come: func(_ *redistest.Server, l *link) { l.deafen() }, goes: func(_ *redistest.Server, l *link) { l.heal() },
	},
	"writes are refused": { // purges as well
		all: true, absent: true,
		come: func(s *redistest.Server, _ *link) { set(s, "min-replicas-to-write", "1") },
		goes: func(s *redistest.Server, _ *link) { set(s, "min-replicas-to-write", "0") },
	},
	"memory is full": { // purges are not refused
		absent: true,
		come:   func(s *redistest.Server, _ *link) { set(s, "maxmemory", "1") },
		goes:   func(s *redistest.Server, _ *link) { set(s, "maxmemory", "0") },
	},
	"the server's snapshot cannot be written": { // MISCONF: purges are refused as well
		all: true, absent: true,
		come: func(s *redistest.Server, _ *link) {
			set(s, "save", "3600 1")
			s.Spoil("dump.rdb")
			s.Client().BgSave(context.Background())
			for ctx := context.Background(); s.Client().Set(ctx, "elsewhere", "", 0).Err() == nil; {
				pause(ctx, time.Millisecond)
			}
		},
		goes: func(s *redistest.Server, _ *link) { set(s, "save", "") },
	},
	"the server's clock is set back and forth": { // as it looks from there: all times that it has written are off
		come: func(s *redistest.Server, _ *link) { shift(s, 10*time.Minute) },
		goes: func(s *redistest.Server, _ *link) { shift(s, -10*time.Minute) },
	},
	"fields are overwritten": {
		come: func(s *redistest.Server, _ *link) {
			for _, field := range []string{"fresh_until", "fetched_at", "changed_at", "lease_until", "layout", "source"} {
				for _, value := range []string{"", "1795269336009.5", "1e13", " 1", "-1", "99999999999999", "x"} {
					s.Client().HSet(context.Background(), prefix+keys[rand.IntN(len(keys))], field, value)
				}
			}
		},
		goes: func(*redistest.Server, *link) {},
	},
	"a replica is far away": { // further than memory is trusted: each of its answers is checked
		come: func(_ *redistest.Server, l *link) { l.slow(60 * time.Millisecond) }, goes: func(_ *redistest.Server, l *link) { l.heal() },
	},
}

func set(s *redistest.Server, name, value string) {
	s.Client().ConfigSet(context.Background(), name, value)
}

// shift moves the times in all documents and leases.
func shift(s *redistest.Server, by time.Duration) {
	for _, key := range keys {
		for _, field := range []string{"fetched_at", "changed_at", "fresh_until", "lease_until"} {
			_ = s.Client().Eval(context.Background(), `if (tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0) or 0) > 1e12 then redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2]) end return 0`,
				[]string{prefix + key}, field, by.Milliseconds()).Err()
		}
	}
}

// removing purges what is there, and says that what was not there was not purged.
func removing(purge func(ctx context.Context, kind, key string) ([]string, error), client *redis.Client) func(ctx context.Context, kind, key string) ([]string, error) {
	return func(ctx context.Context, kind, key string) ([]string, error) {
		if kind != "DEL" && kind != "UNLINK" && kind != "EXPIRE" {
			return purge(ctx, kind, key)
		}
		n, err := client.Del(ctx, prefix+key).Result()
		if err == nil && n == 0 {
			err = redis.Nil
		}
		return []string{key}, err
	}
}

// TestNoFaultBringsBackWhatWasPurged goes on reading and purging while something breaks and heals
// again. Only answers that say that Redis is away are exempt; those of the cut-off replica that do
// not say so yet are not.
func TestNoFaultBringsBackWhatWasPurged(t *testing.T) {
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, trouble.args...)
			way := newLink(t, server.Addr)
			origins := newOrigins(5*time.Millisecond, keys...)
			others := setup{timeout: patient} // those that nothing happens to
			if trouble.all {
				others.timeout = 0
			}
			nodes := append(startFleet(t, way.url(), 1, origins, setup{}), startFleet(t, server.URL(), 3, origins, others)...)
			c := &campaign{origins: origins, replicas: named(nodes), kinds: all, soft: soft}
			client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, ReadTimeout: 5 * time.Second, PoolSize: 20})
			t.Cleanup(func() { _ = client.Close() })
			c.purge = operator(client)
			if trouble.absent {
				c.purge = removing(c.purge, client)
			}
			c.begin(t)

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
				trouble.come(server, way)
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
				trouble.goes(server, way)
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
			for range count(test.rounds) {
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
