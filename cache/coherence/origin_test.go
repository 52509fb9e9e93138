package coherence

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"vitrine/cache"
)

// An origin is what one resource is loaded from. Its content is a version; a load reads it first
// and then takes its time, so that a purge in between makes what it brings old.
type origin struct {
	version  atomic.Int64
	loads    atomic.Int64
	underWay atomic.Int64
	most     atomic.Int64  // loads under way at once, at the most
	latency  time.Duration // a load takes up to this long, at random
	size     int           // of a document, at least
	deaf     bool          // a load that has begun cannot be ended: its answer is on the way

	mu      sync.Mutex
	began   []time.Time
	gate    chan struct{} // nil, or what loads wait for
	entered chan int64    // the version that a load has read, while there is a gate
}

func newOrigin(latency time.Duration) *origin {
	o := &origin{latency: latency, entered: make(chan int64, 100)}
	o.version.Store(1)
	return o
}

// hold makes loads that begin from now on wait, after they have read their version, until release
// is called.
func (o *origin) hold() (release func()) {
	gate := make(chan struct{})
	o.mu.Lock()
	o.gate = gate
	o.mu.Unlock()
	return sync.OnceFunc(func() {
		o.mu.Lock()
		o.gate = nil
		o.mu.Unlock()
		close(gate)
	})
}

// load gives the version that was current when it began.
func (o *origin) load(ctx context.Context) (int64, error) {
	o.loads.Add(1)
	now := o.underWay.Add(1)
	defer o.underWay.Add(-1)
	for most := o.most.Load(); now > most && !o.most.CompareAndSwap(most, now); {
		most = o.most.Load()
	}
	version := o.version.Load()
	o.mu.Lock()
	o.began = append(o.began, time.Now())
	gate := o.gate
	o.mu.Unlock()
	if gate != nil {
		o.entered <- version
		if o.deaf {
			<-gate
			return version, nil
		}
		select {
		case <-gate:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if o.latency > 0 {
		pause(ctx, rand.N(o.latency))
	}
	return version, ctx.Err()
}

// Load makes the origin what a replica in this process loads from.
func (o *origin) Load(ctx context.Context, _ string, _ *cache.Document) (cache.Loaded, error) {
	version, err := o.load(ctx)
	if err != nil {
		return cache.Loaded{}, err
	}
	b := body(version)
	return cache.Loaded{Body: append(b, bytes.Repeat([]byte(" "), max(0, o.size-len(b)))...), Status: 200}, nil
}

func body(version int64) []byte { return fmt.Appendf(nil, `{"version":%d}`, version) }

// prepare reads the version back.
func prepare(d *cache.Document) (int64, error) {
	var v struct{ Version int64 }
	err := json.NewDecoder(bytes.NewReader(d.Body)).Decode(&v) // what follows is padding
	return v.Version, err
}

// pause lets d pass, or ctx end.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
