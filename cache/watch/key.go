package watch

import (
	"context"
	"sync"
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
	// changes counts the invalidations received: earlier those on connections before the present one,
	// flushed those until everything was invalidated for the last time.
	changes, earlier, flushed atomic.Uint64

	mu sync.Mutex // guards the fields below, and changes to those above
	// session is the connection on which changes are received, or were last: the number of its period.
	session uint64
	// own is how many changes there will have been once the own writes of this session have been
	// announced, the last of which was over at wrote.
	own   uint64
	wrote time.Duration
}

// A Mark is taken before a key is read, and shows later whether the result is still valid. Nothing
// is removed when a change is received, so there is no moment at which a read that began before the
// change could put an old copy back.
//
// A write of this process is announced like any other. What its reply says of the key is as new as
// the write, and so is what is read later, so the next invalidation, which is its own or of something
// before it, says nothing new: that one withdraws nothing. Without a reply it counts like any other.
type Mark struct {
	at      time.Duration
	period  uint64 // of uninterrupted listening to one server
	changes uint64
	allowed uint64 // so many changes can have been received while the state read after it still holds
}

// Mark returns the present mark.
func (k *Key) Mark() Mark {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := Mark{at: Now(), changes: k.changes.Load()}
	m.allowed = max(k.own, m.changes)
	if s := k.server.Load(); s != nil {
		m.period = s.period.Load()
	}
	return m
}

// Unread is m for a value that was not read from Redis: it is never trusted, and withdrawn as if it
// had been read then.
func (m Mark) Unread() Mark {
	m.at, m.period = never, 0
	return m
}

// At is when the mark was taken.
func (m *Mark) At() time.Duration { return m.at }

// After reports whether m was taken after o, a change having been received in between.
func (m *Mark) After(o *Mark) bool { return m.period >= o.period && m.changes > o.changes }

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

// Withdrawn reports whether a change was received since m beyond those of own writes.
func (k *Key) Withdrawn(m *Mark) bool { return k.changes.Load() > m.allowed }

// Flushed reports whether everything was invalidated since m, which an operator alone does.
func (k *Key) Flushed(m *Mark) bool { return k.flushed.Load() > m.changes }

// WithdrawnBefore is Withdrawn by what was received before the process run answered, or by a flush:
// what another replica writes there afterwards does not concern a copy from its predecessor.
func (k *Key) WithdrawnBefore(run string, m *Mark) bool {
	if s := k.server.Load(); s != nil && *s.listensTo.Load() == run {
		return k.earlier.Load() > m.allowed || k.Flushed(m)
	}
	return k.Withdrawn(m)
}

// Quiet reports whether nothing but own writes was announced from m until now, as far as changes are
// announced at all; after is the mark of a read or write that followed m, and has shown so many writes
// of others. It waits until every change that was acknowledged before the call has been received.
func (k *Key) Quiet(ctx context.Context, m, after *Mark, others uint64) bool {
	for asked := Now(); ; {
		s := k.server.Load()
		switch {
		case s == nil || after.changes > m.allowed+others:
			return false
		case !s.listening():
			return s.deaf.Load() && !k.Withdrawn(after)
		case s.period.Load() != m.period || k.Withdrawn(after):
			return false
		case k.HeardSince(asked):
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
	return s != nil && s.listening()
}

// Up reports whether the key's server answered when it was last asked.
func (k *Key) Up() bool {
	s := k.server.Load()
	if s != nil {
		return s.away.Load() == 0
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

// redirectPause is the pause before asking again after a reply that another server has the key.
const redirectPause = 10 * time.Millisecond

// call calls f with the key's server, and returns that.
func (k *Key) call(ctx context.Context, again bool, f func(redis.Cmdable) error) (s *Server, err error) {
	until := Now() + k.w.o.Patience
	for {
		if s, err = k.server.Load(), ErrNoServer; s != nil {
			err = s.Do(ctx, again, f)
		}
		moved := err != nil && k.w.dial.voter != nil && (s == nil || s != k.server.Load() || isRedirection(err))
		if !moved || Now() > until {
			return s, err
		}
		k.w.poke() // another server has the key, or is about to
		if !Sleep(ctx, redirectPause) {
			return s, err
		}
	}
}

// Do calls f, which reads, with the key's server, and once more if the connection fails. A server
// that cannot be read is left alone by everybody until it is reached again.
func (k *Key) Do(ctx context.Context, f func(redis.Cmdable) error) error {
	s, err := k.call(ctx, true, f)
	if err != nil && s != nil && ctx.Err() == nil {
		s.fail(err)
	}
	return err
}

// Write is Do for a write, which a server can refuse and yet be read, with a mark from before it. F
// reports whether the key was changed. It is called once more only if again is set, and otherwise
// its failure does not show that the server is unreachable.
func (k *Key) Write(ctx context.Context, again bool, f func(redis.Cmdable) (changed bool, err error)) (m Mark, err error) {
	m = k.Mark()
	changed := false
	s, err := k.call(ctx, again, func(c redis.Cmdable) (err error) {
		changed, err = f(c)
		return err
	})
	if err != nil && again && !Replied(err) && s != nil && ctx.Err() == nil {
		s.fail(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// If there is another connection by now, it may have been announced to nobody, and the next
	// change be another's.
	if err == nil && changed && m.period == k.session {
		m.allowed++
		k.own, k.wrote = max(k.own, m.allowed), Now()
	}
	return m, err
}

// listen begins to receive changes from s on another connection, on which no write from before it is
// announced.
func (k *Key) listen(s *Server, session uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.server.Load() == s { // otherwise another server has the key by now
		k.session = session
		k.unannounced()
		k.earlier.Store(k.changes.Load())
	}
}

// unannounced counts the changes of own writes that are outstanding, so that the next is not taken
// for one of them, and reports whether there were any. It is called with mu held.
func (k *Key) unannounced() bool {
	if k.changes.Load() >= k.own {
		return false
	}
	k.changes.Store(k.own)
	return true
}

// change records an invalidation; all means one of everything.
func (k *Key) change(all bool) {
	k.mu.Lock()
	if n := k.changes.Add(1); all {
		k.flushed.Store(n)
	}
	k.mu.Unlock()
	k.notify(true)
}

// settle reports a write that was over when a ping that has now been answered was sent, and was not
// announced: pushes come from another server than was written to, or are dropped on their way.
func (k *Key) settle(session uint64, sent time.Duration) (missing bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.session == session && k.wrote < sent && k.unannounced()
}
