package coherence

import (
	"context"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/redistest"
)

// A trouble is something that happens to a server or to the way of one replica to it.
type trouble struct {
	args       []string // of the server
	standby    bool     // there is a second one, and all replicas take the same way
	replicates bool     // the second one replicates the first, and what it has not received is not purged
	all        bool     // it reaches all replicas, not only the first
	absent     bool     // Redis may not hold what is served: only a purge that removes something counts, since of no other it says anything
	away       bool     // it lasts until the replicas say that Redis is away
	bound      time.Duration
	size       int // of the catalogue
	come, goes func(*scene)
}

var troubles = map[string]trouble{
	"the server dies and forgets": {
		all: true, away: true,
		come: func(s *scene) { s.server.Kill() }, goes: func(s *scene) { s.server.Restart() },
	},
	"the server dies and remembers": {
		// With always, what was acknowledged is on the disk.
		args: []string{"--appendonly", "yes", "--appendfsync", "always"}, all: true, away: true,
		come: func(s *scene) { s.server.Kill() }, goes: func(s *scene) { s.server.Restart() },
	},
	"the server hangs": {
		all: true, away: true,
		come: func(s *scene) { s.server.Pause() }, goes: func(s *scene) { s.server.Resume() },
	},
	"a replica is cut off": {
		away: true,
		come: func(s *scene) { s.way.cut() }, goes: func(s *scene) { s.way.heal() },
	},
	"a replica's packets vanish": {
		away: true,
		come: func(s *scene) { s.way.hang() }, goes: func(s *scene) { s.way.heal() },
	},
	"a replica's connections break": {
		come: func(s *scene) { s.way.drop() }, goes: func(*scene) {},
	},
	"a replica's connections break, and documents have 4 MiB": {
		size: 4 << 20,
		come: func(s *scene) {
			for range 5 {
				s.pause(100 * time.Millisecond)
				s.way.drop()
			}
		},
		goes: func(*scene) {},
	},
	"a replica's watching connection hangs": {
		come: func(s *scene) { s.way.deafen() }, goes: func(s *scene) { s.way.heal() },
	},
	"a replica is far away": { // further than memory is trusted: each of its answers is checked
		come: func(s *scene) { s.way.slow(60 * time.Millisecond) }, goes: func(s *scene) { s.way.heal() },
	},
	"writes are refused": { // purges as well
		all: true, absent: true,
		come: func(s *scene) { s.set("min-replicas-to-write", "1") },
		goes: func(s *scene) { s.set("min-replicas-to-write", "0") },
	},
	"the server's replica is lost": { // the same, by a real one
		args: []string{"--min-replicas-to-write", "1"}, standby: true, replicates: true, all: true, absent: true,
		come: func(s *scene) { s.replication.cut() },
		goes: func(s *scene) { s.replication.heal() },
	},
	"the server's replica lags, and takes over": {
		standby: true, replicates: true, all: true,
		come: (*scene).failOver, goes: (*scene).failOver,
	},
	"another server takes the address": { // an empty one
		standby: true, all: true,
		come: func(s *scene) { s.exchange(true) }, goes: func(s *scene) { s.exchange(true) },
	},
	"another server takes the address, and connections to the old one stay": {
		standby: true, all: true, bound: 2 * time.Second,
		come: func(s *scene) { s.exchange(false) }, goes: func(s *scene) { s.exchange(false) },
	},
	"memory is full": { // purges are not refused
		absent: true,
		come:   func(s *scene) { s.set("maxmemory", "1") },
		goes:   func(s *scene) { s.set("maxmemory", "0") },
	},
	"the server's snapshot cannot be written": { // MISCONF: purges are refused as well
		all: true, absent: true,
		come: func(s *scene) {
			s.set("save", "3600 1")
			s.server.Spoil("dump.rdb")
			s.server.Client().BgSave(context.Background())
			for ctx := context.Background(); s.server.Client().Set(ctx, "elsewhere", "", 0).Err() == nil; {
				pause(ctx, time.Millisecond)
			}
		},
		goes: func(s *scene) { s.set("save", "") },
	},
	"the server's clock is set back and forth": { // as it looks from there: all times that it has written are off
		come: func(s *scene) { shift(s.server, 10*time.Minute) },
		goes: func(s *scene) { shift(s.server, -10*time.Minute) },
	},
	"fields are overwritten": {
		come: func(s *scene) {
			for _, field := range []string{"fresh_until", "fetched_at", "changed_at", "lease_until", "layout", "source"} {
				for _, value := range []string{"", "1795269336009.5", "1e13", " 1", "-1", "99999999999999", "x"} {
					s.server.Client().HSet(context.Background(), prefix+keys[s.chance.IntN(len(keys))], field, value)
				}
			}
		},
		goes: func(*scene) {},
	},
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

// A scene is the server and what is around it.
type scene struct {
	t           *testing.T
	way         *link      // of the first replica to the server, or of all
	replication *link      // of the standby to the server
	chance      *rand.Rand // by the campaign's seed

	mu              sync.RWMutex // guards the fields below
	server, standby *redistest.Server
	clients         map[*redistest.Server]*redis.Client // the operator's
}

func newScene(t *testing.T, what trouble) *scene {
	args := append([]string{"--repl-diskless-sync-delay", "0"}, what.args...)
	s := &scene{t: t, server: redistest.Start(t, args...), clients: map[*redistest.Server]*redis.Client{}}
	s.way = newLink(t, s.server.Addr)
	if what.standby {
		s.standby = redistest.Start(t, args...)
		s.replication = newLink(t, s.server.Addr)
	}
	for _, server := range []*redistest.Server{s.server, s.standby} {
		if server != nil {
			s.clients[server] = redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, ReadTimeout: 5 * time.Second, PoolSize: 20})
			t.Cleanup(func() { _ = s.clients[server].Close() })
		}
	}
	if what.replicates {
		s.replicate()
	}
	return s
}

func (s *scene) set(name, value string) {
	s.server.Client().ConfigSet(context.Background(), name, value)
}

// pause lasts up to d.
func (s *scene) pause(d time.Duration) {
	pause(s.t.Context(), time.Duration(s.chance.Int64N(int64(d))))
}

// replicate makes the standby a replica of the server, and waits until it has what the server has.
func (s *scene) replicate() {
	s.t.Helper()
	host, port, err := net.SplitHostPort(s.replication.listener.Addr().String())
	must(s.t, err)
	client := s.clients[s.standby]
	must(s.t, client.ReplicaOf(s.t.Context(), host, port).Err())
	eventually(s.t, "the standby replicates", func() bool {
		return strings.Contains(client.Info(s.t.Context(), "replication").Val(), "master_link_status:up")
	})
}

// swap makes the standby the server, for the operator at once and for replicas on new connections.
func (s *scene) swap() {
	s.mu.Lock() // no purge is under way
	defer s.mu.Unlock()
	s.server, s.standby = s.standby, s.server
	s.way.lead(s.server.Addr)
}

// failOver makes a replica that lags the master, and the master its replica.
func (s *scene) failOver() {
	s.replication.hang()
	s.pause(200 * time.Millisecond)
	must(s.t, s.clients[s.standby].ReplicaOf(s.t.Context(), "NO", "ONE").Err())
	s.swap()
	s.way.drop()
	s.replication.lead(s.server.Addr)
	s.replication.heal()
	s.replicate()
}

// exchange puts an empty server behind the address, and waits until the replicas listen to it.
func (s *scene) exchange(drop bool) {
	must(s.t, s.clients[s.standby].FlushAll(s.t.Context()).Err())
	s.swap()
	if drop {
		s.way.drop()
	}
	eventually(s.t, "all listen to the other server", func() bool {
		return len(tracking.FindAllString(s.clients[s.server].ClientList(s.t.Context()).Val(), -1)) >= 4
	})
}

// tracking matches a connection in CLIENT LIST on which changes are received.
var tracking = regexp.MustCompile(` flags=[A-Za-z]*t`)

type purger = func(ctx context.Context, kind, key string) ([]string, error)

// purge is that of an operator at the present server.
func (s *scene) purge(what trouble) purger {
	return func(ctx context.Context, kind, key string) ([]string, error) {
		s.mu.RLock()
		defer s.mu.RUnlock()
		client := s.clients[s.server]
		switch {
		case what.absent:
			return removing(client)(ctx, kind, key)
		case what.replicates:
			return replicated(client)(ctx, kind, key)
		}
		return operator(client)(ctx, kind, key)
	}
}

// replicated purges, and says that what no replica of the server has received was not purged.
func replicated(client *redis.Client) purger {
	return func(ctx context.Context, kind, key string) ([]string, error) {
		one := client.Pipeline() // on one connection
		purged, err := operator(one)(ctx, kind, key)
		received := one.Do(ctx, "WAIT", 1, bound.Milliseconds())
		if _, failed := one.Exec(ctx); failed != nil {
			err = failed
		} else if n, _ := received.Int(); n == 0 {
			err = redis.Nil
		}
		return purged, err
	}
}

// removing purges what is there, and says that what was not there was not purged.
func removing(client *redis.Client) purger {
	purge := operator(client)
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
