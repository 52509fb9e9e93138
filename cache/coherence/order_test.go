package coherence

import (
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vitrine/cache"
	"vitrine/cache/redistest"
	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

// A gate holds up what a replica makes of one version: after it was read from Redis, before it is
// admitted to memory.
type gate struct {
	version atomic.Int64  // 0: none is held up
	entered chan struct{} // one comes when the version is there
	open    chan struct{} // closed to let it go on
}

func newGate() *gate { return &gate{entered: make(chan struct{}, 10), open: make(chan struct{})} }

func (g *gate) prepare(d *cache.Document) (int64, error) {
	version, err := Prepare(d)
	if err == nil && version == g.version.Load() {
		g.entered <- struct{}{}
		<-g.open
	}
	return version, err
}

// duel is two replicas of banners with a source each, and a way between the second and the server.
type duel struct {
	server     *redistest.Server
	way        *redistest.Relay
	one, two   *Node
	src1, src2 *Origin
	held       *gate
	received   *lines // the log of the second, with the changes that it has received
}

func newDuel(t *testing.T) *duel { return newHurriedDuel(t, Patient) }

// newHurriedDuel is newDuel with as long as a replica waits for Redis.
func newHurriedDuel(t *testing.T, timeout time.Duration) *duel {
	d := &duel{server: redistest.Start(t), src1: NewOrigin(0), src2: NewOrigin(0), held: newGate(), received: &lines{}}
	d.way = redistest.NewRelay(t, d.server.Addr)
	d.one = StartFleet(t, d.server.URL(), 1, map[string]*Origin{"banners": d.src1}, Setup{Timeout: timeout, Options: Long})[0]
	d.two = StartFleet(t, d.way.URL(), 1, map[string]*Origin{"banners": d.src2}, Setup{
		Timeout: timeout,
		Logger:  d.received.logger(),
		Options: func(key string, o *cache.ReaderOptions[int64]) {
			Long(key, o)
			o.Prepare = d.held.prepare
		},
	})[0]
	return d
}

// settled returns what was received, once nothing more is on its way.
func settled(t *testing.T, received *lines) int {
	t.Helper()
	last, quiet := -1, 0
	eventually(t, "nothing more is received", func() bool {
		before := last
		last = received.changes()
		if quiet++; last != before {
			quiet = 0
		}
		watch.Sleep(t.Context(), 2*Bound)
		return quiet == 3
	})
	return last
}

func (d *duel) purge(t *testing.T) (acked time.Time) {
	t.Helper()
	must(t, d.server.Client().Del(t.Context(), Prefix+"banners").Err())
	return time.Now()
}

// want asks the replica until it answers from memory, and holds every answer to the version, but
// for those which say that this replica is on its own: one that was cut off may say so for a moment
// longer than it is.
func want(t *testing.T, n *Node, version int64) {
	t.Helper()
	eventually(t, "it answers from memory", func() bool {
		got, status, err := n.Get(t.Context(), "banners")
		must(t, err)
		if got != version && status.Detail != cache.DetailRedisAway {
			t.Fatalf("got version %d, want %d (%+v)", got, version, status)
		}
		return status.Detail == cache.DetailMemory
	})
}

// becomes asks the replica, which may take as long as it may to receive a purge, until it has the
// version.
func becomes(t *testing.T, n *Node, version int64) {
	t.Helper()
	eventually(t, "the new version", func() bool {
		got, _, err := n.Get(t.Context(), "banners")
		must(t, err)
		return got == version
	})
	want(t, n, version)
}

// inBackground asks and gives the version that came.
func inBackground(t *testing.T, n *Node) <-chan int64 {
	got := make(chan int64, 1)
	go func() {
		version, _, err := n.Get(t.Context(), "banners")
		testkit.Check(t, err)
		got <- version
	}()
	return got
}

func TestCopyReadBeforeAPurgeIsNotAdmittedAfterIt(t *testing.T) {
	t.Parallel()
	d := newDuel(t)
	d.held.version.Store(1)
	want(t, d.one, 1)
	before := inBackground(t, d.two)
	testkit.Receive(t, d.held.entered) // the second has read version 1, and not admitted it

	received := d.received.changes()
	d.src1.Version.Store(2)
	acked := d.purge(t)
	eventually(t, "the purge is received", func() bool { return d.received.changes() > received })
	becomes(t, d.one, 2)
	watch.Sleep(t.Context(), time.Until(acked.Add(Bound)))
	const readers = 50
	asking, after := make(chan struct{}, readers), make(chan int64, readers)
	for range readers { // join who waits, those at least that get there first
		go func() {
			asking <- struct{}{}
			version, _, err := d.two.Get(t.Context(), "banners")
			testkit.Check(t, err)
			after <- version
		}()
	}
	for range readers {
		testkit.Receive(t, asking)
	}
	close(d.held.open)

	testkit.Receive(t, before) // either will do
	for range readers {
		if got := testkit.Receive(t, after); got != 2 {
			t.Errorf("asked after the Purge: got %d", got)
		}
	}
	want(t, d.two, 2)
}

func TestCopyReadBeforeAGapInListeningIsNotTrustedAfterIt(t *testing.T) {
	t.Parallel()
	d := newDuel(t)
	d.held.version.Store(1)
	want(t, d.one, 1)
	before := inBackground(t, d.two)
	testkit.Receive(t, d.held.entered)
	received := settled(t, d.received)
	d.way.Cut()
	d.src1.Version.Store(2)
	d.purge(t)
	becomes(t, d.one, 2)
	eventually(t, "the gap is noticed", func() bool { return !d.two.Store.Listening() })
	d.way.Heal()
	eventually(t, "purges are received again", d.two.Store.Listening)
	if d.received.changes() != received {
		t.Error("the purge was received: nothing is shown")
	}
	close(d.held.open)
	testkit.Receive(t, before)
	want(t, d.two, 2)
}

func TestPurgeReceivedLateMeansAskingUntilThenAndNothingOldAfterwards(t *testing.T) {
	t.Parallel()
	d := newDuel(t)
	want(t, d.one, 1)
	want(t, d.two, 1)
	received := settled(t, d.received)
	d.way.Deafen()
	d.src1.Version.Store(2)
	acked := d.purge(t)
	becomes(t, d.one, 2)
	watch.Sleep(t.Context(), time.Until(acked.Add(Bound)))
	for range 20 {
		version, status, err := d.two.Get(t.Context(), "banners")
		must(t, err)
		if version != 2 || status.Detail != cache.DetailRedis {
			t.Fatalf("while pushes are held back: version %d, %+v", version, status)
		}
	}
	if d.received.changes() != received {
		t.Error("the purge was received: nothing is shown")
	}
	d.way.Heal()
	want(t, d.two, 2)
	if n := d.src1.Loads.Load() + d.src2.Loads.Load(); n != 2 {
		t.Errorf("%d fetches, want 2", n)
	}
}

func TestOlderOfTwoReadsAdmittedLastIsNotServed(t *testing.T) {
	t.Parallel()
	d := newDuel(t)
	d.src2.Deaf = true
	release := d.src2.Hold()
	waiting := inBackground(t, d.two)
	testkit.Receive(t, d.src2.Entered) // the second fetches version 1
	d.purge(t)
	d.src1.Version.Store(5)
	d.held.version.Store(5)
	want(t, d.one, 5)
	testkit.Receive(t, d.held.entered) // the second has read what the first has filled, and not admitted it
	d.src2.Version.Store(6)
	acked := d.purge(t)
	release() // its fill is refused; it fetches version 6, fills and admits
	if got := testkit.Receive(t, waiting); got != 6 {
		t.Errorf("who waited got %d, want 6", got)
	}
	close(d.held.open) // and only now version 5 is admitted
	watch.Sleep(t.Context(), time.Until(acked.Add(Bound)))
	want(t, d.two, 6)
}

func TestPurgeDuringAFetchIsNotHeldUpByIt(t *testing.T) {
	t.Parallel()
	d := newDuel(t)
	d.src1.Deaf = true
	release := d.src1.Hold()
	defer release()
	slow := inBackground(t, d.one)
	testkit.Receive(t, d.src1.Entered)
	d.src2.Version.Store(2)
	d.purge(t)
	began := time.Now()
	becomes(t, d.two, 2) // while the first's load still goes on
	t.Logf("another replica had fetched anew after %v", time.Since(began))
	release()
	if got := testkit.Receive(t, slow); got != 2 {
		t.Errorf("who waited for the fetch that the purge made void got %d, want 2", got)
	}
	if n := d.src1.Loads.Load(); n != 1 {
		t.Errorf("the first fetched %d times, want once and then to take what the other has filled", n)
	}
	want(t, d.two, 2)
}

// TestWhatWasLoadedAloneIsNotTrustedOnceRedisIsBack has a copy in memory that Redis never held, so
// that purging it removes nothing and nobody is told.
func TestWhatWasLoadedAloneIsNotTrustedOnceRedisIsBack(t *testing.T) {
	t.Parallel()
	d := newHurriedDuel(t, 0)
	d.server.Pause() // for less than it takes to give the watching connection up
	version, status, err := d.two.Get(t.Context(), "banners")
	must(t, err)
	if version != 1 || status.Detail != cache.DetailRedisAway {
		t.Errorf("while Redis hangs: version %d, %+v", version, status)
	}
	d.server.Resume()
	eventually(t, "Redis is back", func() bool { return d.two.Store.Up() && d.two.Store.Listening() })
	d.src2.Version.Store(2)
	acked := d.purge(t)
	watch.Sleep(t.Context(), time.Until(acked.Add(Bound)))
	want(t, d.two, 2)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var eventually = testkit.Eventually
