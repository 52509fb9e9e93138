// Package coherence tests whether purged content is served again, and whether a copy that nobody
// purged is lost, while Redis, the CMS and the links between break in every way there is. -seed repeats
// a run's purges and pauses, and LONG_VOLUME=n makes n times as many.
//
// One run goes like this:
//
//  1. a fleet of replicas, each a cache.Store with its readers, starts in front of one redis-server
//     process, over links that can be cut, hung and slowed down;
//  2. readers ask all replicas all the time, while the loader fails and the link breaks;
//  3. a purger raises the version of a resource at its source, purges as an operator would, and
//     notes when Redis acknowledged it;
//  4. a checker records when each version was last requested and answered, and at the end compares
//     the two.
//
// See docs/coherence.md for the guarantees.
package coherence

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
)

// A scene is a fleet, the server and what is around it.
type scene struct {
	t           *testing.T
	c           *Campaign
	first       *slot            // the replica that what reaches one reaches
	way         *redistest.Relay // of the first replica to the server, or of all
	replication *redistest.Relay // of the standby to the server
	chance      *rand.Rand       // by the campaign's seed
	careful     atomic.Bool      // a purge of what Redis does not hold is not one

	mu              sync.RWMutex // guards the fields below
	server, standby *redistest.Server
	clients         map[*redistest.Server]*redis.Client // the operator's
}

// A slot is a replica that can be replaced.
type slot struct {
	setup Setup
	node  atomic.Pointer[Node]
}

func (s *slot) Get(ctx context.Context, key string) (int64, cache.Status, error) {
	return s.node.Load().Get(ctx, key)
}

func newScene(t *testing.T, what trouble) *scene {
	args := append([]string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--repl-timeout", "5"}, what.args...)
	s := &scene{t: t, server: redistest.Start(t, args...), clients: map[*redistest.Server]*redis.Client{}}
	s.way = redistest.NewRelay(t, s.server.Addr)
	s.way.Slow(what.distance)
	if what.standby {
		s.standby = redistest.Start(t, args...)
		s.replication = redistest.NewRelay(t, s.server.Addr)
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

// fleet starts four replicas, whose fetches have time limits of their own, and the campaign.
func (s *scene) fleet(what trouble, seed uint64) {
	origins := NewOrigins(5*time.Millisecond, Keys...)
	origins["catalogue"].Size = what.size
	s.chance = rand.New(rand.NewPCG(seed, 0))
	s.c = &Campaign{Origins: origins, Replicas: map[string]Replica{}, Seed: seed, Purge: s.purge(what), Kinds: All, Bound: what.bound, Pauses: what.pauses}
	for i, limit := range []time.Duration{5 * time.Second, 2 * time.Second, 100 * time.Second, 5 * time.Second} {
		name := []string{"replica 1", "replica 2", "replica 3", "replica 4"}[i]
		setup, url := Setup{Timeout: Patient, Options: func(key string, o *cache.ReaderOptions[int64]) {
			Failing(key, o)
			o.FetchTimeout = limit + 40*what.distance // purges come faster than a far Redis stores what is fetched
		}}, s.server.URL()
		if what.distance > 0 {
			setup.Bound = what.bound
		}
		// Who must not take Redis for unreachable waits for it, however busy the machine is.
		if (what.away || what.usual) && (i == 0 || what.all) {
			setup.Timeout = 0
		}
		if i == 0 || what.standby || what.one {
			url = s.way.URL()
		}
		at := &slot{setup: setup}
		at.node.Store(StartFleet(s.t, url, 1, origins, setup)[0])
		if i == 0 {
			s.first = at
		}
		s.c.Replicas[name] = at
	}
	s.c.Begin(s.t)
}

// restart replaces the first replica by another process, once that can answer.
func (s *scene) restart() {
	node := Start(s.t, s.way.URL(), s.c.Origins, s.first.setup)
	for key, o := range s.c.Origins {
		for _, _, err := node.Get(s.t.Context(), key); err != nil && !o.Down.Load(); _, _, err = node.Get(s.t.Context(), key) {
			poll.Sleep(s.t.Context(), time.Millisecond)
		}
	}
	s.first.node.Store(node)
	s.c.Replaced("replica 1")
}

func (s *scene) set(name, value string) {
	s.server.Client().ConfigSet(context.Background(), name, value)
}

// pause lasts up to d.
func (s *scene) pause(d time.Duration) {
	poll.Sleep(s.t.Context(), time.Duration(s.chance.Int64N(int64(d))))
}

// replicate makes the standby a replica of the server, and waits until it has what the server has.
func (s *scene) replicate() {
	s.t.Helper()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(s.replication.URL(), "redis://"))
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
	s.way.Lead(s.server.Addr)
}

// failOver makes a replica that lags the master, and the master its replica.
func (s *scene) failOver() {
	s.replication.Hang()
	s.pause(200 * time.Millisecond)
	must(s.t, s.clients[s.standby].ReplicaOf(s.t.Context(), "NO", "ONE").Err())
	s.swap()
	s.way.Drop()
	s.replication.Lead(s.server.Addr)
	s.replication.Heal()
	s.replicate()
}

// exchange puts an empty server behind the address, and waits until the replicas listen to it. It
// is emptied when nobody listens to it any more from the time before: that would be a purge.
func (s *scene) exchange(drop bool) {
	eventually(s.t, "nobody polls the other server", func() bool { return s.listeners(s.standby) == 0 })
	must(s.t, s.clients[s.standby].FlushAll(s.t.Context()).Err())
	s.swap()
	if drop {
		s.way.Drop()
	}
	eventually(s.t, "all poll the other server", func() bool {
		return s.listeners(s.server) >= 4
	})
}

// listeners is how many connections poll a server.
func (s *scene) listeners(server *redistest.Server) int {
	return len(polling.FindAllString(s.clients[server].ClientList(s.t.Context()).Val(), -1))
}

// polling matches a connection in CLIENT LIST that polls.
var polling = regexp.MustCompile(` cmd=time `)

// flushOthers flushes another database now and then.
func (s *scene) flushOthers() {
	other := redis.NewClient(&redis.Options{Addr: s.server.Addr, DB: 5, MaxRetries: -1})
	defer func() { _ = other.Close() }()
	for range 5 {
		must(s.t, other.FlushDB(s.t.Context()).Err())
		s.pause(100 * time.Millisecond)
	}
}

// killConnections ends those of all clients, now and then, while no purge is under way: one without
// a reply counts as carried out, and here there is nothing that it could have removed.
func (s *scene) killConnections() {
	for range 3 {
		s.mu.Lock()
		for _, kind := range []string{"normal", "pubsub"} {
			s.server.Client().ClientKillByFilter(context.Background(), "TYPE", kind, "SKIPME", "yes")
		}
		s.mu.Unlock()
		s.pause(200 * time.Millisecond)
	}
}

// purge is that of an operator at the present server.
func (s *scene) purge(what trouble) Purger {
	return func(ctx context.Context, kind, key string) ([]string, error) {
		s.mu.RLock()
		defer s.mu.RUnlock()
		client := s.clients[s.server]
		switch {
		case what.replicates:
			return replicated(client)(ctx, kind, key)
		case what.absent || s.careful.Load():
			return removing(client)(ctx, kind, key)
		}
		return Operator(client)(ctx, kind, key)
	}
}

var errNotHeld = errors.New("there was no document")

// replicated purges, and says that what no replica of the server has received was not purged.
func replicated(client *redis.Client) Purger {
	return func(ctx context.Context, kind, key string) ([]string, error) {
		one := client.Conn()
		defer func() { _ = one.Close() }()
		purged, err := remove(ctx, one.TxPipeline(), kind, key)
		if err != nil {
			return nil, err
		}
		if n, err := one.Do(ctx, "WAIT", 1, Bound.Milliseconds()).Int(); err != nil || n == 0 {
			return nil, errNotHeld
		}
		return purged, nil
	}
}

// removing purges, and says that a document that was not there was not purged, nor one that a soft
// purge changes nothing of, and that nothing was if no key of vitrine's was there.
func removing(client *redis.Client) Purger {
	return func(ctx context.Context, kind, key string) ([]string, error) {
		return remove(ctx, client.TxPipeline(), kind, key)
	}
}

func remove(ctx context.Context, one redis.Pipeliner, kind, key string) (purged []string, err error) {
	there, held, beside, until := map[string]*redis.BoolCmd{}, map[string]*redis.BoolCmd{}, map[string]*redis.IntCmd{}, map[string]*redis.SliceCmd{}
	for _, k := range Keys {
		full := Prefix + k
		// A hash without a number is an operator's own.
		there[k], held[k], beside[k] = one.HExists(ctx, full, "seq"), one.HExists(ctx, full, "body"), one.Exists(ctx, Prefix+"lease:{"+full+"}")
		until[k] = one.HMGet(ctx, full, "fresh_until")
	}
	all, _ := Operator(one)(ctx, kind, key)
	if _, err := one.Exec(ctx); err != nil {
		return nil, err
	}
	found := false
	for _, k := range all {
		found = found || there[k].Val() || len(all) > 1 && beside[k].Val() > 0
		if held[k].Val() && (!Soft[kind] || until[k].Val()[0] != "0") {
			purged = append(purged, k)
		}
	}
	switch {
	case !found: // nobody can tell it from one of what is not vitrine's
		return nil, ErrNothing
	case len(purged) == 0:
		return nil, errNotHeld
	}
	return purged, nil
}

var seed = flag.Uint64("seed", 0, "of the campaigns; 0: the clock's")

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		os.Exit(child(spec))
	}
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64N(1e9)
	}
	_, _ = fmt.Fprintf(os.Stdout, "-seed %d\n", *seed)
	os.Exit(m.Run())
}

// count is n times the volume.
func count(t *testing.T, n int) int64 {
	t.Helper()
	return int64(n * harness.Volume(t))
}

// run purges until so many are acknowledged, and gives the verdict.
func run(t *testing.T, c *Campaign, purges int64) {
	t.Helper()
	c.Seed, c.Kinds = *seed, All
	c.Begin(t)
	testkit.Within(t, 10*time.Minute, "the purges are made", func() bool { return c.Acked.Load() >= purges || t.Failed() })
	v := c.End()
	c.Report(t, v)
	c.MostlyHeld(t, v)
	judge(t, v)
}

// judge has a linearizability checker by others look at the histories. A document is a register
// there that only grows: a purge writes its version, and an answer reads that version or a newer
// one. The register may lag by the bound, so that a read may take effect as early as that before it
// was asked for, and a purge as late as when it was acknowledged. In a register that only grows, if
// these moments are wrong all others are, so that each operation is given its own alone.
func judge(t *testing.T, v Verdict) {
	t.Helper()
	register := porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, _ any) (bool, any) {
			at, a := state.(int64), input.(Access)
			if a.Purge {
				return true, max(at, a.Version)
			}
			return a.Version >= at, at
		},
	}
	wrong := 0
	for _, history := range v.Histories {
		operations := make([]porcupine.Operation, 0, len(history))
		for _, a := range history {
			operations = append(operations, porcupine.Operation{ClientId: a.Client, Input: a, Call: int64(a.At), Return: int64(a.At)})
		}
		// One that takes longer is not found right.
		if result := porcupine.CheckOperationsTimeout(register, operations, 10*time.Second); result != porcupine.Ok {
			t.Logf("porcupine on %d operations: %s", len(history), result)
			wrong++
		}
	}
	if (wrong > 0) != (len(v.Violations) > 0) {
		t.Errorf("of %d histories porcupine finds %d wrong, and the checker %d purges", len(v.Histories), wrong, len(v.Violations))
	}
}

var must = testkit.Must

var eventually = testkit.Eventually
