package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A Policy is what of [ReaderOptions] may change while a reader runs. Its fields mean what they mean there.
type Policy struct {
	TTL                  time.Duration
	StaleWhileRevalidate time.Duration
	StaleIfError         time.Duration
	FetchTimeout         time.Duration
	Source               string
}

func (o *ReaderOptions[V]) policy() Policy {
	return Policy{
		TTL: o.TTL, StaleWhileRevalidate: o.StaleWhileRevalidate, StaleIfError: o.StaleIfError,
		FetchTimeout: o.FetchTimeout, Source: o.Source,
	}
}

func (p *Policy) validate() error {
	switch {
	case p.TTL < time.Millisecond:
		return fmt.Errorf("cache: TTL: want at least 1ms, got %v", p.TTL)
	case p.StaleWhileRevalidate < 0 || p.StaleIfError < 0 || p.FetchTimeout < 0:
		return errors.New("cache: want no negative duration")
	}
	setDefault(&p.FetchTimeout, 10*time.Second)
	return nil
}

// window is how long past its freshness a document is kept.
func (p *Policy) window() time.Duration { return max(p.StaleWhileRevalidate, p.StaleIfError) }

// freshness is TTL and up to a tenth more.
func (p *Policy) freshness() time.Duration {
	return p.TTL + rand.N(p.TTL/10+1)
}

// SetPolicy replaces the policy. The stale windows and the source count for what is held from now on, a TTL from the
// next fetch: until when a document is fresh stands in Redis, for all processes. It fails on a policy that cannot be,
// and then changes nothing; not because Redis is away.
//
// Each fetch reads the policy once, before it calls the loader. Whoever changes where a loader loads from does that
// first and sets the Source after it, so that nothing from the old place is kept under the new Source.
func (r *Reader[V]) SetPolicy(ctx context.Context, p Policy) error {
	if err := p.validate(); err != nil {
		return err
	}
	r.policy.Store(&p)
	r.retime()
	if !r.store.Up() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.store.timeout)
	defer cancel()
	if err := r.store.extend(ctx, r.key, p.TTL, p.window()); err != nil {
		r.store.failed(err)
	}
	return nil
}

// retime gives what is in memory the times of the policy. It is called after either of the two has changed, so that
// whichever changed last finds the other.
func (r *Reader[V]) retime() {
	for {
		cur, p := r.memory.Load(), r.policy.Load()
		if cur == nil || cur.policy == p {
			return
		}
		e := *cur
		e.retime(p, r.store.now())
		r.memory.CompareAndSwap(cur, &e)
	}
}
