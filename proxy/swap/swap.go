// Package swap has what answers requests, behind a pointer that changes while requests are under
// way.
package swap

import (
	"context"
	"sync/atomic"
	"time"
)

// UnderWay counts the requests that a server has begun. A server embeds it.
type UnderWay struct{ requests atomic.Int64 }

// Begin counts a request. Requests that a pointer leads to begin with the function [Begin].
func (u *UnderWay) Begin() { u.requests.Add(1) }

// End ends a request.
func (u *UnderWay) End() { u.requests.Add(-1) }

// Drain returns when no request is under way, or with ctx's error.
func (u *UnderWay) Drain(ctx context.Context) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for u.requests.Load() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}

// Begin returns the server at p with a request under way, which its Drain waits for if p changes
// before its End.
func Begin[T any, S interface {
	*T
	Begin()
	End()
}](p *atomic.Pointer[T]) S {
	for {
		s := S(p.Load())
		if s.Begin(); s == S(p.Load()) {
			return s
		}
		s.End() // it may be drained already
	}
}
