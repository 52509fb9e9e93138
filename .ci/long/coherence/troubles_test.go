package coherence

import (
	"context"
	"time"

	"vitrine/cache/poll"
	"vitrine/cache/redistest"
)

// A trouble is something that happens to a server or to the way of one replica to it.
type trouble struct {
	args       []string // of the server
	one        bool     // all replicas take the same way
	standby    bool     // there is a second server, and all replicas take the same way
	replicates bool     // the second one replicates the first, and what it has not received is not purged
	all        bool     // it reaches all replicas, not only the first
	parts      bool     // somebody may not be listening while it lasts, so that a flush looks like a loss
	absent     bool     // Redis may not hold what is served: only a purge that removes something counts, since of no other it says anything
	away       bool     // it lasts until the replicas say that Redis is away
	usual      bool     // whom it reaches has the usual time for Redis, and may say so
	loses      bool     // Redis comes back without what was stored, or purged: what is marked as lost is exempt
	bound      time.Duration
	pauses     time.Duration // between two purges, at the most: fetches have to end
	distance   time.Duration // of all replicas from the start, for which the purge bound is raised
	size       int           // of the catalogue
	before     func(*scene)  // while the CMS still works
	come, goes func(*scene)
}

func nothing(*scene) {}

func kill(s *scene)     { s.server.Kill() }
func revive(s *scene)   { s.server.Restart() }
func heal(s *scene)     { s.way.Heal() }
func snapshot(s *scene) { must(s.t, s.clients[s.server].Save(s.t.Context()).Err()) }

var troubles = map[string]trouble{
	"the server dies and forgets": {all: true, away: true, loses: true, come: kill, goes: revive},
	"the server dies and remembers": {
		// With always, what was acknowledged is on the disk.
		args: []string{"--appendonly", "yes", "--appendfsync", "always"}, all: true, away: true, come: kill, goes: revive,
	},
	"the server restarts from an older snapshot": {
		all: true, away: true, loses: true, before: snapshot,
		come: func(s *scene) { s.pause(200 * time.Millisecond); kill(s) }, goes: revive,
	},
	"the server restarts from a snapshot between a purge and its fill": {
		all: true, away: true, loses: true, goes: revive, come: kill,
		before: func(s *scene) {
			s.c.Hush()
			s.c.PurgeAll(s.t.Context())
			snapshot(s)
		},
	},
	"the server hangs": {
		all: true, away: true,
		come: func(s *scene) { s.server.Pause() }, goes: func(s *scene) { s.server.Resume() },
	},
	"a replica is cut off":       {away: true, come: func(s *scene) { s.way.Cut() }, goes: heal},
	"a replica's packets vanish": {away: true, come: func(s *scene) { s.way.Hang() }, goes: heal},
	"a replica is started while cut off": {
		usual: true,
		come:  func(s *scene) { s.way.Cut(); s.restart() }, goes: heal,
	},
	"a replica's replies are late":                            {usual: true, come: func(s *scene) { s.way.Slow(450 * time.Millisecond) }, goes: heal},
	"all replies are late":                                    {one: true, all: true, usual: true, come: func(s *scene) { s.way.Slow(450 * time.Millisecond) }, goes: heal},
	"a replica's replies come twice":                          {usual: true, come: func(s *scene) { s.way.Repeat() }, goes: heal},
	"a replica's link is half open":                           {usual: true, come: func(s *scene) { s.way.Hole() }, goes: nothing},
	"a replica's connections break":                           {parts: true, come: func(s *scene) { s.way.Drop() }, goes: nothing},
	"a replica's connections break, and documents have 4 MiB": {parts: true, size: 4 << 20, pauses: 200 * time.Millisecond, come: breakOften, goes: nothing},
	"a replica is far away": { // further than memory is trusted: each of its answers is checked
		come: func(s *scene) { s.way.Slow(60 * time.Millisecond) }, goes: heal,
	},
	"Redis is 250 ms away, and the purge bound is raised": {
		one: true, distance: 250 * time.Millisecond, bound: 700 * time.Millisecond, pauses: 3 * time.Second, come: nothing, goes: nothing,
	},
	"documents and lock records are evicted": {come: (*scene).evict, goes: nothing},
	"another database is flushed":            {come: (*scene).flushOthers, goes: nothing},
	"memory is full from the start, and another database is flushed": {
		args: []string{"--maxmemory", "1"}, absent: true, come: (*scene).flushOthers, goes: nothing,
	},
	"memory is full from the start, and connections are killed": {
		args: []string{"--maxmemory", "1"}, all: true, absent: true, come: (*scene).killConnections, goes: nothing,
	},
	"writes are refused from the start, and connections are killed": {
		args: []string{"--min-replicas-to-write", "1"}, all: true, absent: true, come: (*scene).killConnections, goes: nothing,
	},
	"writes are refused": { // purges as well
		all: true, absent: true,
		come: func(s *scene) { s.set("min-replicas-to-write", "1") },
		goes: func(s *scene) { s.set("min-replicas-to-write", "0") },
	},
	"the server's replica is lost": { // the same, by a real one
		args: []string{"--min-replicas-to-write", "1"}, standby: true, replicates: true, all: true, absent: true,
		come: func(s *scene) { s.replication.Cut() },
		goes: func(s *scene) { s.replication.Heal() },
	},
	"the server's replica lags, and takes over": {
		standby: true, replicates: true, all: true, loses: true,
		come: (*scene).failOver, goes: (*scene).failOver,
	},
	"another server takes the address": { // an empty one
		standby: true, all: true, loses: true,
		come: func(s *scene) { s.exchange(true) }, goes: func(s *scene) { s.exchange(true) },
	},
	"another server takes the address, and connections to the old one stay": {
		standby: true, all: true, loses: true, bound: 2 * time.Second,
		come: func(s *scene) { s.exchange(false) }, goes: func(s *scene) { s.exchange(false) },
	},
	"memory is full": { // purges are not refused
		absent: true,
		come:   func(s *scene) { s.set("maxmemory", "1") },
		goes:   func(s *scene) { s.set("maxmemory", "0") },
	},
	"the server's snapshot cannot be written": { // MISCONF: purges are refused as well, and pings
		all: true, absent: true, parts: true,
		come: func(s *scene) {
			s.set("save", "3600 1")
			s.server.Spoil("dump.rdb")
			s.server.Client().BgSave(context.Background())
			for ctx := context.Background(); s.server.Client().Set(ctx, "elsewhere", "", 0).Err() == nil; {
				poll.Sleep(ctx, time.Millisecond)
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
			trusted := s.c.Untrusted()
			defer trusted()
			for _, field := range []string{"fresh_until", "fetched_at", "changed_at", "lease_until", "layout", "source", "set", "seq"} {
				for _, value := range []string{"", "1795269336009.5", "1e13", " 1", "-1", "99999999999999", "x"} {
					s.server.Client().HSet(context.Background(), Prefix+Keys[s.chance.IntN(len(Keys))], field, value)
				}
			}
			poll.Sleep(s.t.Context(), 2*Bound)
		},
		goes: nothing,
	},
}

// evict removes the hash of a document, its lock record, or both, as a Redis without room does. It
// may count as a purge.
func (s *scene) evict() {
	trusted := s.c.Untrusted()
	defer trusted()
	for range 100 {
		key := Prefix + Keys[s.chance.IntN(len(Keys))]
		both := []string{key, Prefix + "lease:{" + key + "}"}
		s.server.Client().Unlink(context.Background(), [][]string{both[:1], both[1:], both}[s.chance.IntN(3)]...)
		s.pause(10 * time.Millisecond)
	}
	poll.Sleep(s.t.Context(), 2*Bound)
}

func breakOften(s *scene) {
	for range 5 {
		s.pause(100 * time.Millisecond)
		s.way.Drop()
	}
}

// shift moves the times in all documents and leases.
func shift(s *redistest.Server, by time.Duration) {
	for _, key := range Keys {
		for _, field := range []string{"fetched_at", "changed_at", "fresh_until", "lease_until"} {
			_ = s.Client().Eval(context.Background(), `if (tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0) or 0) > 1e12 then redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2]) end return 0`,
				[]string{Prefix + key}, field, by.Milliseconds()).Err()
		}
	}
}
