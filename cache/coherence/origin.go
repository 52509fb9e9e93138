package coherence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"vitrine/cache"
	"vitrine/cache/poll"
)

// ErrDown is what loads return while the CMS is down.
var ErrDown = errors.New("the CMS is down")

// An Origin is what one resource is loaded from. Its content is a version; a load reads it first
// and then takes its time, so that a purge in between makes what it brings old.
type Origin struct {
	Version atomic.Int64
	Down    atomic.Bool
	Loads   atomic.Int64
	Most    atomic.Int64  // loads under way at once, at the most
	Latency time.Duration // a load takes up to this long, at random
	Size    int           // of a document, at least
	Deaf    bool          // a load that has begun cannot be ended: its answer is on the way
	Entered chan int64    // the version that a load has read, while loads are held

	underWay atomic.Int64
	mu       sync.Mutex
	loads    []load
	gate     chan struct{} // nil, or what loads wait for
}

// A load is when a replica began one, and when it ended if it was successful.
type load struct {
	replica      string
	began, ended time.Time
}

// NewOrigin makes one with version 1.
func NewOrigin(latency time.Duration) *Origin {
	o := &Origin{Latency: latency, Entered: make(chan int64, 100)}
	o.Version.Store(1)
	return o
}

// NewOrigins makes one for each resource.
func NewOrigins(latency time.Duration, keys ...string) map[string]*Origin {
	origins := map[string]*Origin{}
	for _, key := range keys {
		origins[key] = NewOrigin(latency)
	}
	return origins
}

// Hold makes loads that begin from now on wait, after they have read their version, until release
// is called.
func (o *Origin) Hold() (release func()) {
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

// Began is when the loads began.
func (o *Origin) Began() (times []time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.loads {
		times = append(times, l.began)
	}
	return times
}

// loadedElsewhere reports whether a replica other than that one ended a load between two times, and
// whether one began a load.
func (o *Origin) loadedElsewhere(replica string, from, to time.Time) (ended, began bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.loads {
		ended = ended || l.replica != replica && l.ended.After(from) && l.ended.Before(to)
		began = began || l.replica != replica && l.began.After(from) && l.began.Before(to)
	}
	return ended, began
}

// Fetch gives the version that was current when the load of that replica began.
func (o *Origin) Fetch(ctx context.Context, replica string) (int64, error) {
	o.Loads.Add(1)
	now := o.underWay.Add(1)
	defer o.underWay.Add(-1)
	for most := o.Most.Load(); now > most && !o.Most.CompareAndSwap(most, now); {
		most = o.Most.Load()
	}
	version, down := o.Version.Load(), o.Down.Load()
	o.mu.Lock()
	nth, gate := len(o.loads), o.gate
	o.loads = append(o.loads, load{replica: replica, began: time.Now()})
	o.mu.Unlock()
	if gate != nil {
		o.Entered <- version
		if o.Deaf {
			<-gate
			return version, nil
		}
		select {
		case <-gate:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if o.Latency > 0 {
		poll.Sleep(ctx, rand.N(o.Latency))
	}
	if down {
		return 0, ErrDown
	}
	o.mu.Lock()
	o.loads[nth].ended = time.Now()
	o.mu.Unlock()
	return version, ctx.Err()
}

// Loader makes the origin what a replica in this process loads from.
func (o *Origin) Loader(replica string) cache.Loader {
	return cache.LoaderFunc(func(ctx context.Context, _ string, _ *cache.Document) (cache.Loaded, error) {
		version, err := o.Fetch(ctx, replica)
		if err != nil {
			return cache.Loaded{}, err
		}
		b := Body(version)
		return cache.Loaded{Body: append(b, bytes.Repeat([]byte(" "), max(0, o.Size-len(b)))...), Status: 200}, nil
	})
}

// Body is a document of that version.
func Body(version int64) []byte { return fmt.Appendf(nil, `{"version":%d}`, version) }

// Prepare reads the version back.
func Prepare(d *cache.Document) (int64, error) {
	var v struct{ Version int64 }
	err := json.NewDecoder(bytes.NewReader(d.Body)).Decode(&v) // what follows is padding
	return v.Version, err
}
