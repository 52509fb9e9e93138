package watch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Key is a watched key.
type Key struct {
	w      *Watch
	name   string
	notify func(changed bool)

	server atomic.Pointer[Server]
	// changes counts the invalidations received, earlier those received on connections before the
	// present one.
	changes, earlier atomic.Uint64
	// wrote is from before the last write of this process, if its invalidation is outstanding.
	wrote atomic.Pointer[write]
}

// A Mark is taken before a key is read, and shows later whether the result is still valid. Nothing
// is removed when a change is received, so there is no moment at which a read that began before the
// change could put an old copy back.
//
// A write of this process is announced like any other. What its reply says of the key is as new as
// the write, so the next invalidation, which is its own or of something before it, says nothing new:
// that one withdraws nothing. Without a reply it counts like any other.
type Mark struct {
	at      time.Duration
	period  uint64 // of uninterrupted listening to one server
	changes uint64
	own     uint64 // 1 if it was taken before a write that the key's state is known from
}

// Mark returns the present mark.
func (k *Key) Mark() Mark {
	m := Mark{at: Now(), changes: k.changes.Load()}
	if s := k.server.Load(); s != nil {
		m.period = s.period.Load()
	}
	return m
}

// Unread is the mark of a value that was not read from Redis: it is never trusted, and withdrawn as
// if it had been read now.
func (k *Key) Unread() Mark { return k.Mark().Unread() }

// Unread is m for a value that was not read from Redis after all.
func (m Mark) Unread() Mark {
	m.at, m.period = never, 0
	return m
}

// At is when the mark was taken.
func (m *Mark) At() time.Duration { return m.at }

// Vouch makes m cover a write that was made after w, and that showed the state read after m to hold.
func (m *Mark) Vouch(w *Mark) {
	if w.changes == m.changes {
		m.own = w.own
	}
}

// Allow is m for a state that one change more would not contradict, if more is set.
func (m Mark) Allow(more bool) *Mark {
	if more {
		m.own++
	}
	return &m
}

// After reports whether m was taken after o, a change having been received in between.
func (m *Mark) After(o *Mark) bool { return m.period >= o.period && m.changes > o.changes }

// Read is Trusts for a read, which keeps the heartbeats going that trust needs.
func (k *Key) Read(m *Mark, now time.Duration) bool {
	k.w.noteRead(now)
	return k.Trusts(m, now)
}

// Trusts reports whether a value read after m is what Redis holds, except for changes acknowledged
// within the bound. It takes no lock.
func (k *Key) Trusts(m *Mark, now time.Duration) bool {
	s := k.server.Load()
	// The order matters: first that changes are received, then that there was none.
	return s != nil && s.heardOf(now) && s.period.Load() == m.period && k.changes.Load() == m.changes
}

// Recent is the same by the time of the reading alone: m was taken within the bound.
func (k *Key) Recent(m *Mark, now time.Duration) bool {
	return now-m.at <= k.w.trust && !k.Changed(m)
}

// Changed reports whether a change was received since m.
func (k *Key) Changed(m *Mark) bool { return k.changes.Load() != m.changes }

// Withdrawn reports whether a change was received since m beyond that of an own write.
func (k *Key) Withdrawn(m *Mark) bool { return k.changes.Load() > m.changes+m.own }

// WithdrawnBefore is Withdrawn by what was received before the process run answered: what another
// replica writes there afterwards does not concern a copy from its predecessor.
func (k *Key) WithdrawnBefore(run string, m *Mark) bool {
	if s := k.server.Load(); s != nil && *s.listensTo.Load() == run {
		return k.earlier.Load() > m.changes+m.own
	}
	return k.Withdrawn(m)
}

// Quiet reports whether nothing but own writes was announced from m until now, as far as changes are
// announced at all; after is the mark of a read or write that followed m. It waits until every change
// that was acknowledged before the call has been received.
func (k *Key) Quiet(ctx context.Context, m, after *Mark) bool {
	for asked := Now(); ; {
		s := k.server.Load()
		switch {
		case s == nil || after.changes > m.changes+m.own:
			return false
		case !s.live.Load():
			return s.deaf.Load() && !k.Withdrawn(after)
		case s.period.Load() != m.period || k.Withdrawn(after):
			return false
		case s.heard.Load() >= int64(asked):
			return !k.Withdrawn(after)
		}
		s.poke()
		if !Sleep(ctx, k.w.heartbeat/4) {
			return false
		}
	}
}

// HeardSince reports whether every change acknowledged before t has been received.
func (k *Key) HeardSince(t time.Duration) bool {
	s := k.server.Load()
	return s != nil && s.heard.Load() >= int64(t)
}

// Listening reports whether changes are received.
func (k *Key) Listening() bool {
	s := k.server.Load()
	return s != nil && s.live.Load()
}

// Up reports whether the key's server answered when it was last asked.
func (k *Key) Up() bool {
	s := k.server.Load()
	if s != nil {
		return !s.away.Load()
	}
	select {
	case <-k.w.settled:
		return false
	default:
		return true // unknown yet
	}
}

// Run names the process at the key's server, or "" if unknown.
func (k *Key) Run() string {
	if s := k.server.Load(); s != nil {
		return *s.run.Load()
	}
	return ""
}

// Do calls f with the key's server. If the connection fails, the pool is replaced, and if again is
// set f is called once more.
func (k *Key) Do(ctx context.Context, again bool, f func(redis.Cmdable) error) error {
	until := Now() + k.w.o.Patience
	for {
		s, err := k.server.Load(), ErrNoServer
		if s != nil {
			err = s.Do(ctx, again, f)
		}
		if err == nil {
			return nil
		}
		moved := k.w.dial.single == nil && (s == nil || s != k.server.Load() || isRedirection(err))
		if !moved || Now() > until {
			return &serverError{s, err}
		}
		k.w.poke() // another server has the key, or is about to
		if !Sleep(ctx, redirectPause) {
			return &serverError{s, err}
		}
	}
}

// A serverError is the failure of a call to a server.
type serverError struct {
	server *Server
	err    error
}

func (e *serverError) Error() string { return e.err.Error() }
func (e *serverError) Unwrap() error { return e.err }

// redirectPause is the pause before asking again after a reply that another server has the key.
const redirectPause = 10 * time.Millisecond

// Fail records that the server of a failed call to [Key.Do] cannot be read: nobody else tries until
// it is reached again.
func (k *Key) Fail(err error) {
	var failed *serverError
	if errors.As(err, &failed) && failed.server != nil {
		failed.server.fail(failed.err)
	}
}

// A write is one of this process's own. One that is not announced shows that the connection on which
// changes are received is not to the server that was written to, or that pushes are dropped.
type write struct {
	Mark
	ended time.Duration
}

// Write is Do for a write, with a mark from before it. F reports whether the key was changed.
func (k *Key) Write(ctx context.Context, again bool, f func(redis.Cmdable) (changed bool, err error)) (m Mark, err error) {
	m = k.Mark()
	changed := false
	err = k.Do(ctx, again, func(c redis.Cmdable) (err error) {
		changed, err = f(c)
		return err
	})
	if err == nil && changed {
		m.own = 1
		k.wrote.Store(&write{m, Now()})
		if s := k.server.Load(); s == nil || !s.live.Load() || s.period.Load() != m.period {
			m.own = 0 // it may have been announced to nobody, and the next change is another's
		}
	}
	return m, err
}

// unheard counts a write that was to be announced on a connection that has ended: the next change
// is not its own.
func (k *Key) unheard() {
	if w := k.wrote.Swap(nil); w != nil && k.changes.Load() == w.changes {
		k.changes.Add(1)
	}
}

// change records an invalidation; all means one of everything, which is an operator's: it concerns
// copies of what an earlier process held as well.
func (k *Key) change(all bool) {
	if n := k.changes.Add(1); all {
		k.earlier.Store(n)
	}
	k.notify(true)
}

// settle reports a write that was over when a ping that has now been answered was sent, and that
// was not announced.
func (k *Key) settle(s *Server, sent time.Duration) (missing bool) {
	w := k.wrote.Load()
	if w == nil || w.ended >= sent {
		return false
	}
	missing = w.period == s.period.Load() && k.changes.Load() == w.changes
	if k.wrote.CompareAndSwap(w, nil) && missing {
		k.changes.Add(1)
	}
	return missing
}
