package watch

import (
	"context"
	"errors"
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
	// changes counts the invalidations received, foreign those that no write of this process
	// explains, earlier those of the foreign that were received on connections before the present
	// one.
	changes, foreign, earlier atomic.Uint64

	mu     sync.Mutex
	writes []*Write // own writes whose invalidation has not been received
}

// A Mark is taken before a key is read, and shows later whether the result is still valid. Nothing
// is removed when a change is received, so there is no moment at which a read that began before the
// change could put an old copy back.
type Mark struct {
	at               time.Duration
	period           uint64 // of uninterrupted listening to one server
	changes, foreign uint64
}

// Mark returns the present mark.
func (k *Key) Mark() Mark {
	m := Mark{at: Now(), changes: k.changes.Load(), foreign: k.foreign.Load()}
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

// Withdrawn reports whether a change was received since m that this process has not made itself.
func (k *Key) Withdrawn(m *Mark) bool { return k.foreign.Load() != m.foreign }

// WithdrawnBefore is Withdrawn by what was received before the process run answered: what another
// replica writes there afterwards does not concern a copy from its predecessor.
func (k *Key) WithdrawnBefore(run string, m *Mark) bool {
	if s := k.server.Load(); s != nil && *s.listensTo.Load() == run {
		return k.earlier.Load() > m.foreign
	}
	return k.Withdrawn(m)
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

// A Write is a write of this process's own to a key. Redis announces it like any other, so that it
// explains one invalidation; and one that is not announced shows that the connection on which
// changes are received is not to the server that was written to.
type Write struct {
	k        *Key
	server   *Server
	period   uint64
	heard    bool
	ended    time.Duration // 0 while in progress
	expected bool
}

// Begin is called before a write is sent, and End once it is over.
func (k *Key) Begin() *Write {
	w := &Write{k: k, server: k.server.Load()}
	if w.server != nil && w.server.live.Load() {
		w.period = w.server.period.Load()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes = append(k.writes, w)
	return w
}

// End records the outcome of the write: whether it changed the key, if a reply arrived.
func (w *Write) End(changed, answered bool) {
	k := w.k
	k.mu.Lock()
	mistaken := w.heard && answered && !changed
	switch {
	case mistaken: // the invalidation it seemed to explain was another's, and looks since took it for its
		k.explain()
		k.changes.Add(1)
	case answered && !changed:
		k.drop(w)
	default:
		w.ended, w.expected = Now(), answered
	}
	k.mu.Unlock()
	if mistaken {
		k.notify(true)
	}
}

func (k *Key) drop(w *Write) {
	for i, other := range k.writes {
		if other == w {
			k.writes = append(k.writes[:i], k.writes[i+1:]...)
			return
		}
	}
}

// change records an invalidation; all means one of everything, which no own write explains.
func (k *Key) change(all bool) {
	k.mu.Lock()
	if all { // an operator's: it concerns copies of what an earlier process held as well
		k.earlier.Store(k.foreign.Add(1))
	} else {
		k.explain()
	}
	k.changes.Add(1)
	k.mu.Unlock()
	k.notify(true)
}

// explain takes an invalidation for that of the oldest own write, or otherwise for a foreign one.
func (k *Key) explain() {
	s := k.server.Load()
	for len(k.writes) > 0 {
		w := k.writes[0]
		k.writes = k.writes[1:]
		// One begun before the present period can have been announced before it, or to nobody.
		if s != nil && s == w.server && s.live.Load() && s.period.Load() == w.period {
			w.heard = true
			return
		}
	}
	k.foreign.Add(1)
}

// settle drops writes that were over when a ping that s has now answered was sent. It reports one
// that should have been announced before, and was not.
func (k *Key) settle(s *Server, sent time.Duration) (missing bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	left := k.writes[:0]
	for _, w := range k.writes {
		if w.ended == 0 || w.ended >= sent {
			left = append(left, w)
		} else if w.expected && w.server == s && w.period == s.period.Load() {
			missing = true
		}
	}
	k.writes = left
	return missing
}
