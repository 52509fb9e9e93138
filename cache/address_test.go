package cache

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/redistest"
	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

// TestAnotherServerBehindTheAddressIsNoticed moves new connections to another server while those
// that there are stay: an address that fails over, a name, a balancer.
func TestAnotherServerBehindTheAddressIsNoticed(t *testing.T) {
	one, two := startRedis(t), redistest.Start(t)
	way := redistest.NewRelay(t, one.Addr)
	src, r := serving(t, way.URL())
	warm(t, r)
	way.Lead(two.Addr)
	elapsed := testkit.Stopwatch(t)
	src.version.Store(2)
	eventually(t, "what the other server holds counts", func() bool { return get(t, r).Value == 2 })
	if took := elapsed(); took > 4*time.Second {
		t.Errorf("the change of servers was noticed after %v", took)
	}
	warm(t, r)
	purgeReaches(t, src, []*Reader[int64]{r}, 50*time.Millisecond, func() error { return two.Client().Del(t.Context(), key).Err() })
}

// TestASessionWithTheOldServerConfirmsNoLook has a look be answered by the other server behind the
// address while the session with the old one goes on, in which another replica's lease was
// announced: nobody has purged the copy.
func TestASessionWithTheOldServerConfirmsNoLook(t *testing.T) {
	one, two := startRedis(t), redistest.Start(t)
	way := redistest.NewRelay(t, one.Addr)
	log, noticed, release := stopAtExchange(t)
	src := newSource()
	_, r := replicaWith(t, Options{URL: way.URL(), Logger: log}, options(src))
	warm(t, r)
	src.fail(errDown)
	must(t, one.Client().HSet(t.Context(), "vitrine:lease:{"+key+"}", "wanted_until", 0).Err())
	received(t, r)
	way.Lead(two.Addr)
	eventually(t, "it is noticed, which takes longer while nobody reads", func() bool {
		select {
		case <-noticed:
			return true
		default:
			_, _ = r.Get(t.Context())
			return false
		}
	})
	began, prev, mark := r.begin(), r.memory.Load(), r.watched.Mark()
	rec, err := r.hash.Look(t.Context(), two.Client(), prev.etag())
	must(t, err)
	learned := make(chan error, 1)
	go func() {
		_, err := r.learn(began, prev, &rec, mark, false)
		learned <- err
	}()
	received(t, r)
	received(t, r)
	release <- struct{}{}
	// It is learned if the session with the other server has begun by now.
	if err := testkit.Receive(t, learned); err != nil && !errors.Is(err, errParted) {
		t.Error(err)
	}
	eventually(t, "the loss is said", func() bool {
		a := get(t, r) // never an error
		return a.Value == 1 && a.Status.Detail == DetailRedisLost
	})
}

// TestAHoldOutlastsTheServer has a lease be taken at the other server behind the address, while the
// session with the old one goes on: what became of the copy is unknown, and yet nothing replaces it
// that is held back.
func TestAHoldOutlastsTheServer(t *testing.T) {
	one, two := startRedis(t), redistest.Start(t)
	way := redistest.NewRelay(t, one.Addr)
	log, noticed, _ := stopAtExchange(t)
	src := newSource(2)
	o := guarded(src, time.Hour)
	o.TTL = time.Minute
	s, r := replicaWith(t, Options{URL: way.URL(), Logger: log}, o)
	warm(t, r)
	src.version.Store(101)
	watch.Sleep(t.Context(), 1200*time.Millisecond) // then heartbeats are a second apart
	way.Lead(two.Addr)
	for line := range strings.Lines(one.Client().ClientList(t.Context()).Val()) {
		if id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " "); !strings.Contains(line, "flags=t") && !strings.Contains(line, "cmd=client") {
			must(t, one.Client().ClientKillByFilter(t.Context(), "ID", id).Err())
		}
	}
	go func() { _ = s.Ping(t.Context()) }()
	testkit.Receive(t, noticed)
	f, _ := r.fly(t.Context())
	<-f.done
	if lease := two.Client().HGet(t.Context(), books, "lease").Val(); lease != "" {
		t.Errorf("the lease %s stays", lease)
	}
	heldBack(t, r)
}

// stopAt calls a function when another server is noticed behind the address.
type stopAt struct {
	slog.Handler
	call func()
}

func (stopAt) Enabled(context.Context, slog.Level) bool { return true }

func (s stopAt) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "another redis process answers at this address" {
		s.call()
	}
	return nil
}

// stopAtExchange is a log that says when another server is first noticed, and waits then until
// something is released, or the test ends.
func stopAtExchange(t *testing.T) (log *slog.Logger, noticed, release chan struct{}) {
	noticed, release = make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	return slog.New(stopAt{slog.DiscardHandler, sync.OnceFunc(func() { close(noticed); <-release })}), noticed, release
}

// TestADemotedMasterIsNotTrusted makes a replica of the server, whose master cannot be reached. It
// still answers every ping.
func TestADemotedMasterIsNotTrusted(t *testing.T) {
	server := startRedis(t)
	store, r := replica(t, server.URL(), options(newSource()))
	warm(t, r)
	refusals["READONLY"](t, server)
	eventually(t, "memory is not trusted", func() bool { return get(t, r).Status.Detail == DetailRedis && !store.Listening() })
}

// TestPushesThatDoNotComeEndTheTrust has a server that takes CLIENT TRACKING and announces nothing
// of these keys: an own write that does not come back shows it.
func TestPushesThatDoNotComeEndTheTrust(t *testing.T) {
	server := startRedis(t)
	way := redistest.NewRelay(t, server.Addr)
	way.Mute()
	src, r := serving(t, way.URL())
	get(t, r) // a write of its own
	eventually(t, "it is noticed", func() bool { return !r.store.Listening() })
	purgeReaches(t, src, []*Reader[int64]{r}, 50*time.Millisecond, func() error { return server.Client().Del(t.Context(), key).Err() })
}

// TestConnectionsThatLeadNowhereAreReplaced lets every connection that there is go silent, as a
// middlebox does that forgets flows, while new ones work.
func TestConnectionsThatLeadNowhereAreReplaced(t *testing.T) {
	server := startRedis(t)
	way := redistest.NewRelay(t, server.Addr)
	src, r := serving(t, way.URL())
	warm(t, r)
	calls := make(chan error, 10)
	for range cap(calls) { // ten connections in the pool
		go func() {
			calls <- r.watched.Do(t.Context(), func(c redis.Cmdable) error { return c.Eval(t.Context(), "return redis.call('TIME')", nil).Err() })
		}()
	}
	for range cap(calls) {
		must(t, testkit.Receive(t, calls))
	}
	way.Hole()
	src.version.Store(2)
	must(t, server.Client().Del(t.Context(), key).Err())
	elapsed := testkit.Stopwatch(t)
	eventually(t, "the new version", func() bool { return get(t, r).Value == 2 })
	if took := elapsed(); took > 2*time.Second || !r.store.Up() {
		t.Errorf("after %v, up: %t", took, r.store.Up())
	}
}

// TestADocumentOnItsWayIsNoSilence has a link on which a document takes several times as long as
// Redis may be silent.
func TestADocumentOnItsWayIsNoSilence(t *testing.T) {
	t.Parallel()
	for name, relayTo := range map[string]func(testing.TB, string) *redistest.Relay{"TCP": redistest.NewRelay, "TLS": redistest.NewSecureRelay} {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t)
			way := relayTo(t, server.Addr)
			src := newSource()
			o := options(padded(src, 2<<20))
			_, r := replica(t, way.URL(), o)
			_, other := replica(t, way.URL(), o)
			way.Throttle(4 << 20) // half a second for each way
			for _, r := range []*Reader[int64]{r, other} {
				if a := get(t, r); a.Value != 1 || a.Status.Detail == DetailRedisAway || a.Status.Detail == DetailRedisRefused {
					t.Errorf("got %+v", a.Status)
				}
			}
			src.version.Store(2)
			must(t, server.Client().Del(t.Context(), key).Err())
			for _, r := range []*Reader[int64]{r, other} {
				eventually(t, "the new version", func() bool { return get(t, r).Value == 2 })
			}
			if n := src.loads.Load(); n != 2 || !r.store.Up() {
				t.Errorf("%d loads, want one for the start and one for the purge; up: %t", n, r.store.Up())
			}
		})
	}
}

// TestAFillThatTakesLongerThanItsLeaseIsNotLostForEver has two replicas, of which each could take
// over from the other while a document is on its way to Redis.
func TestAFillThatTakesLongerThanItsLeaseIsNotLostForEver(t *testing.T) {
	server := startRedis(t)
	way := redistest.NewRelay(t, server.Addr)
	src := newSource()
	o := options(padded(src, 3<<19))
	o.FetchTimeout = 300 * time.Millisecond
	_, r := replica(t, way.URL(), o)
	_, other := replica(t, way.URL(), o)
	way.Throttle(1 << 20)
	for _, r := range []*Reader[int64]{r, other} {
		eventually(t, "it is stored", func() bool {
			_, _ = r.Get(t.Context())
			return server.Client().HExists(t.Context(), key, "body").Val()
		})
	}
	if n := src.loads.Load(); n > 4 {
		t.Errorf("%d loads", n)
	}
}

// TestABusyServerIsNotDeafForLong has replies on the listening connection that are refusals of the
// moment.
func TestABusyServerIsNotDeafForLong(t *testing.T) {
	server := startRedis(t, "--lua-time-limit", "10")
	way := redistest.NewRelay(t, server.Addr)
	_, r := serving(t, way.URL())
	warm(t, r)
	busy := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, ReadTimeout: -1})
	defer func() { _ = busy.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = busy.Eval(t.Context(), "while true do end", nil).Err()
	}()
	eventually(t, "it is busy", func() bool {
		err := server.Client().Get(t.Context(), "x").Err()
		return err != nil && strings.Contains(err.Error(), "BUSY")
	})
	way.Cut()
	way.Heal()
	eventually(t, "it is noticed", func() bool { return !r.store.Listening() })
	must(t, server.Client().ScriptKill(t.Context()).Err())
	testkit.Receive(t, done)
	elapsed := testkit.Stopwatch(t)
	eventually(t, "purges are received again", r.store.Listening)
	if took := elapsed(); took > 2*time.Second {
		t.Errorf("deaf for %v after it was over", took)
	}
}

// TestAMinorityOfSentinelsIsNotBelieved leaves one Sentinel of three, which names a server of its
// own.
func TestAMinorityOfSentinelsIsNotBelieved(t *testing.T) {
	t.Parallel()
	group := redistest.StartSentinels(t)
	impostor := redistest.Start(t)
	src, r := serving(t, group.URL())
	warm(t, r)
	for _, s := range group.Sentinels[:2] {
		s.Kill()
	}
	alone := group.Sentinels[2].Client()
	host, port, err := net.SplitHostPort(impostor.Addr)
	must(t, err)
	must(t, alone.Do(t.Context(), "sentinel", "remove", redistest.MasterName).Err())
	must(t, alone.Do(t.Context(), "sentinel", "monitor", redistest.MasterName, host, port, "2").Err())
	eventually(t, "memory is not trusted without a majority", func() bool { return get(t, r).Status.Detail == DetailRedis })
	purgeReaches(t, src, []*Reader[int64]{r}, 50*time.Millisecond, func() error { return group.Master.Client().Del(t.Context(), key).Err() })
	if n := impostor.Client().DBSize(t.Context()).Val(); n != 0 || !r.store.Up() {
		t.Errorf("%d keys on the server that a minority names; up: %t", n, r.store.Up())
	}
}

// info is the sum of these fields of INFO.
func info(t *testing.T, server *redistest.Server, fields ...string) (sum float64) {
	t.Helper()
	all := server.Client().Info(t.Context(), "everything").Val()
	for _, name := range fields {
		_, rest, _ := strings.Cut(all, "\r\n"+name+":")
		text, _, _ := strings.Cut(rest, "\r\n")
		n, err := strconv.ParseFloat(text, 64)
		must(t, err)
		sum += n
	}
	return sum
}

// commands is how many commands the server has run so far.
func commands(t *testing.T, server *redistest.Server) int {
	t.Helper()
	return int(info(t, server, "total_commands_processed"))
}
