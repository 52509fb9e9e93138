package watch

import (
	"context"
	"math"
	"time"
)

// A Mark is taken before a key is read, and shows later whether the result is still valid. Nothing
// is removed when a change is received, so there is no moment at which a read that began before the
// change could put an old copy back.
//
// A write of this process is announced like any other, and what it knows is looked at again before
// it is trusted. But what the reply of a write says of the key is as new as the write: the next
// change, which is its own or of something before it, does not withdraw it.
type Mark struct {
	at               time.Duration
	changes, besides uint64
	allowed          uint64 // what changes can be while the state read after it still holds
}

// Mark returns the present mark.
func (k *Key) Mark() Mark {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.changes.Load()
	return Mark{at: Now(), changes: n, besides: k.besides.Load(), allowed: max(k.own, n)}
}

// Unread is m for a value that was not read from Redis: it is never trusted.
func (m Mark) Unread() Mark {
	m.at, m.changes = never, 0
	return m
}

// At is when the mark was taken.
func (m *Mark) At() time.Duration { return m.at }

// Trusts reports whether a value read after m is what Redis holds, except for changes acknowledged
// within the bound. It takes no lock.
func (k *Key) Trusts(m *Mark, now time.Duration) bool {
	s := k.server.Load()
	// The order matters: first that changes are received, then that there was none.
	return s != nil && s.current(now) && k.changes.Load() == m.changes && k.session.Load() <= m.changes
}

// Recent is the same by the time of the reading alone: m was taken within the bound.
func (k *Key) Recent(m *Mark, now time.Duration) bool {
	return now-m.at <= k.w.trust && !k.Changed(m)
}

// Changed reports whether a change was received since m, or another session has begun.
func (k *Key) Changed(m *Mark) bool { return k.changes.Load() != m.changes }

// Unseen reports whether a change was received since m beyond those of own writes, in the present
// session or before the link was lost.
func (k *Key) Unseen(m *Mark) bool {
	return k.changes.Load() > max(m.allowed, k.session.Load()) || k.Parted(m)
}

// Parted reports whether the link was lost after such a change.
func (k *Key) Parted(m *Mark) bool { return k.parted.Load() > m.allowed }

// Received is what was received since a mark.
type Received struct {
	Changes  uint64 // of the key, own writes apart
	Named    bool   // one of them was of this key alone
	Flushed  bool   // one of them was of everything
	Beside   bool   // a change of the key beside it
	Listened bool   // on one session ever since
}

// Since returns what was received since m.
func (k *Key) Since(m *Mark) Received {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, from := k.changes.Load(), max(m.allowed, k.session.Load())
	return Received{
		Changes: max(n, from) - from, Named: k.named.Load() > from, Flushed: k.flushed.Load() > from, Beside: k.besides.Load() != m.besides,
		Listened: m.changes >= k.session.Load() && k.Listening(),
	}
}

// Confirm waits for the answer to a ping that is sent from now on, on the session in which m was
// taken, and reports whether it came before the session ended: then the server that is listened to
// was there after everything that was read before, and new connections led to no other.
func (k *Key) Confirm(ctx context.Context, m *Mark) bool {
	for asked := Now(); ; {
		s := k.server.Load()
		switch {
		case s == nil || !s.listening() || m.changes < k.session.Load():
			return false
		case k.ReceivedSince(asked):
			return true
		}
		Signal(s.poked)
		if !Sleep(ctx, k.w.heartbeat/16) {
			return false
		}
	}
}

// ReceivedSince reports whether every change acknowledged before t has been received.
func (k *Key) ReceivedSince(t time.Duration) bool {
	s := k.server.Load()
	return s != nil && s.answered.Load() >= int64(t)
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

// begin begins a session: nothing that was read or written before is announced on it.
func (k *Key) begin(s *Server) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.server.Load() == s { // otherwise another server has the key by now
		k.session.Store(max(k.changes.Load(), k.own) + 1)
		k.changes.Store(k.session.Load())
	}
}

// move gives the key to another server. Nothing that was read from the last is trusted, and nothing
// counts as listened to until a session begins.
func (k *Key) move(s *Server) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.server.Store(s)
	k.changes.Store(max(k.changes.Load(), k.own) + 1)
	k.session.Store(math.MaxUint64)
}

// lose records that the link is lost.
func (k *Key) lose() {
	k.mu.Lock()
	if n := k.changes.Load(); n > k.session.Load() {
		k.parted.Store(n)
	}
	k.mu.Unlock()
	k.notify(Lost)
}

// change records a change of the key; all means one of everything.
func (k *Key) change(all bool) {
	k.mu.Lock()
	if n := k.changes.Add(1); all {
		k.flushed.Store(n)
	} else {
		k.named.Store(n)
	}
	k.mu.Unlock()
	k.notify(Changed)
}

// settle reports a write that was over when a ping that has now been answered was sent, and was not
// announced: pushes come from another server than was written to, or are dropped on their way.
func (k *Key) settle(sent time.Duration) (missing bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wrote >= sent || k.changes.Load() >= k.own {
		return false
	}
	k.changes.Store(k.own)
	return true
}
