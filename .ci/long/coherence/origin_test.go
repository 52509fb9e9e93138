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
	Latency time.Duration // a load takes up to this long, at random
	Size    int           // of a document, at least
	Entered chan int64    // the version that a load has read, while loads are held

	mu   sync.Mutex
	gate chan struct{} // nil, or what loads wait for
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

// Fetch gives the version that was current when the load began.
func (o *Origin) Fetch(ctx context.Context) (int64, error) {
	o.Loads.Add(1)
	version, down := o.Version.Load(), o.Down.Load()
	o.mu.Lock()
	gate := o.gate
	o.mu.Unlock()
	if gate != nil {
		o.Entered <- version
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
	return version, ctx.Err()
}

// Loader makes the origin what a replica in this process loads from.
func (o *Origin) Loader() cache.Loader {
	return cache.LoaderFunc(func(ctx context.Context, _ string, _ *cache.Document) (cache.Loaded, error) {
		version, err := o.Fetch(ctx)
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
