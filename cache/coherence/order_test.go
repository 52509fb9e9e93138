package coherence

import (
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vitrine/cache"
	"vitrine/cache/poll"
	"vitrine/cache/redistest"
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
}

func newDuel(t *testing.T) *duel { return newHurriedDuel(t, Patient) }

// newHurriedDuel is newDuel with as long as a replica waits for Redis.
func newHurriedDuel(t *testing.T, timeout time.Duration) *duel {
	d := &duel{server: redistest.Start(t), src1: NewOrigin(0), src2: NewOrigin(0), held: newGate()}
	d.way = redistest.NewRelay(t, d.server.Addr)
	d.one = StartFleet(t, d.server.URL(), 1, map[string]*Origin{"banners": d.src1}, Setup{Timeout: timeout, Options: Long})[0]
	d.two = StartFleet(t, d.way.URL(), 1, map[string]*Origin{"banners": d.src2}, Setup{
		Timeout: timeout,
		Options: func(key string, o *cache.ReaderOptions[int64]) {
			Long(key, o)
			o.Prepare = d.held.prepare
		},
	})[0]
	return d
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

	d.src1.Version.Store(2)
	acked := d.purge(t)
	becomes(t, d.one, 2)
	poll.Sleep(t.Context(), time.Until(acked.Add(Bound)))
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
	eventually(t, "Redis is back", func() bool { return d.two.Store.Up() && d.two.Store.Answering() })
	d.src2.Version.Store(2)
	acked := d.purge(t)
	poll.Sleep(t.Context(), time.Until(acked.Add(Bound)))
	want(t, d.two, 2)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var eventually = testkit.Eventually
