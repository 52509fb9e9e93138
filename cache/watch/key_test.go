package watch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// listening is a key whose server is connected, in its n-th period.
func listening(n uint64) (*Key, *Server) {
	s, run := &Server{poked: make(chan struct{}, 1), w: &Watch{heartbeat: time.Millisecond, dial: &connector{}}}, "run"
	s.listensTo.Store(&run)
	s.period.Store(n)
	s.heard.Store(forever)
	s.pool.Store(redis.NewClient(&redis.Options{}))
	k := &Key{w: s.w, notify: func(bool) {}}
	k.server.Store(s)
	k.listen(s, n)
	return k, s
}

// write makes a write that ends like that, during which so many changes are received.
func written(t *testing.T, k *Key, changes int, changed bool, err error) Mark {
	t.Helper()
	m, got := k.Write(t.Context(), false, func(redis.Cmdable) (bool, error) {
		for range changes {
			k.change(false)
		}
		return changed, err
	})
	if !errors.Is(got, err) {
		t.Fatal(got)
	}
	return m
}

func TestOwnWriteAccountsForOneChange(t *testing.T) {
	tests := map[string]struct {
		during, after int
		changed       bool
		err           error
		withdrawn     bool
	}{
		"its own, before the reply":          {during: 1, changed: true},
		"its own, after the reply":           {after: 1, changed: true},
		"another, before the reply":          {during: 2, changed: true, withdrawn: true},
		"another, after the reply":           {during: 1, after: 1, changed: true, withdrawn: true},
		"of a write that changed nothing":    {during: 1, withdrawn: true},
		"of a write that was refused":        {during: 1, err: redis.ErrClosed, withdrawn: true},
		"of a write whose reply never came":  {during: 1, changed: true, err: context.Canceled, withdrawn: true},
		"nothing, of a write that was none":  {},
		"after a write that changed nothing": {after: 1, withdrawn: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k, _ := listening(1)
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // nothing is tried again
			m, _ := k.Write(ctx, false, func(redis.Cmdable) (bool, error) {
				for range test.during {
					k.change(false)
				}
				return test.changed, test.err
			})
			for range test.after {
				k.change(false)
			}
			if k.Withdrawn(&m) != test.withdrawn {
				t.Errorf("withdrawn: %t, want %t", !test.withdrawn, test.withdrawn)
			}
			if received := test.during+test.after > 0; k.Changed(&m) != received {
				t.Errorf("changed: %t, want %t", !received, received)
			}
		})
	}
}

// TestOwnWritesAccountForAChangeEach has a lease and a fill follow each other faster than they are
// announced.
func TestOwnWritesAccountForAChangeEach(t *testing.T) {
	k, _ := listening(1)
	acquire := written(t, k, 0, true, nil)
	fill := written(t, k, 0, true, nil)
	look := k.Mark()
	k.change(false)
	k.change(false)
	if k.Withdrawn(&fill) || k.Withdrawn(&look) {
		t.Error("its own announcements withdraw what a process knows from its writes, or has read since")
	}
	if !k.Withdrawn(&acquire) {
		t.Error("what was known before the fill does not allow for it")
	}
	k.change(false)
	if !k.Withdrawn(&fill) || !k.Withdrawn(&look) {
		t.Error("a purge is taken for an own write")
	}
}

// TestAnOwnWriteWhoseConnectionEnds has the listening connection end before the reply is there.
func TestAnOwnWriteWhoseConnectionEnds(t *testing.T) {
	tests := map[string]struct {
		before    int  // changes received on that connection
		another   bool // there is another one before the reply,
		after     int  // on which so many are received
		withdrawn bool
	}{
		"announced":             {before: 1},
		"announced, and purged": {before: 2, withdrawn: true},
		"announced, and purged on another connection": {before: 1, after: 1, withdrawn: true},
		"not announced":                                    {},
		"not announced, and purged later":                  {after: 1, withdrawn: true},
		"not announced, and purged before the reply":       {another: true, after: 1, withdrawn: true},
		"announced or not, on another one for all we know": {another: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k, s := listening(1)
			another := func() {
				k.listen(s, 2)
				for range test.after {
					k.change(false)
				}
			}
			m, err := k.Write(t.Context(), false, func(redis.Cmdable) (bool, error) {
				for range test.before {
					k.change(false)
				}
				s.heard.Store(never)
				if test.another {
					another()
				}
				return true, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if !test.another {
				another()
			}
			if k.Withdrawn(&m) != test.withdrawn {
				t.Errorf("withdrawn: %t, want %t", !test.withdrawn, test.withdrawn)
			}
		})
	}
}

func TestAWriteThatIsNotAnnouncedIsMissed(t *testing.T) {
	k, _ := listening(1)
	written(t, k, 0, true, nil)
	if sent := k.wrote; k.settle(1, sent) || !k.settle(1, sent+1) || k.settle(1, sent+1) {
		t.Error("want it missed once, when a ping that was sent after it is answered")
	}
	written(t, k, 1, true, nil)
	if k.settle(1, Now()+1) {
		t.Error("it was announced")
	}
	written(t, k, 0, true, nil)
	if k.settle(2, Now()+1) {
		t.Error("it may have been announced on the connection before")
	}
}

func TestFlushWithdrawsWhatAnEarlierProcessHeld(t *testing.T) {
	k, _ := listening(1)
	m := k.Mark()
	k.change(false)
	if k.WithdrawnBefore("run", &m) {
		t.Error("a write of another replica to this process withdraws what an earlier one held")
	}
	if !k.WithdrawnBefore("another run", &m) {
		t.Error("a change from an earlier process does not")
	}
	k.change(true)
	if !k.WithdrawnBefore("run", &m) {
		t.Error("FLUSHALL does not")
	}
}

func TestQuietIsUninterrupted(t *testing.T) {
	k, s := listening(1)
	m := k.Mark()
	for name, test := range map[string]struct {
		live, deaf bool
		period     uint64
		own        uint64
		quiet      bool
	}{
		"listening":                   {live: true, period: 1, quiet: true},
		"listening again":             {live: true, period: 2},
		"not listening":               {period: 1},
		"nothing is ever announced":   {period: 1, deaf: true, quiet: true},
		"refused before, and not now": {live: true, deaf: true, period: 2},
	} {
		s.heard.Store(never)
		if test.live {
			s.heard.Store(forever)
		}
		s.deaf.Store(test.deaf)
		s.period.Store(test.period)
		now := k.Mark()
		if k.Quiet(t.Context(), &m, &now, 0) != test.quiet {
			t.Errorf("%s: quiet: %t", name, !test.quiet)
		}
	}
	s.period.Store(1)
	s.heard.Store(0)
	now := k.Mark()
	go func() {
		<-s.poked
		k.change(false)
		s.heard.Store(forever)
	}()
	if k.Quiet(t.Context(), &m, &now, 0) {
		t.Error("a change was received before the answer to a ping")
	}
	if own := (Mark{allowed: 1}); !k.Quiet(t.Context(), &m, &own, 0) {
		t.Error("it was an own one")
	}
	if own := (Mark{changes: 1, allowed: 2}); k.Quiet(t.Context(), &m, &own, 0) {
		t.Error("it was received before the own write")
	}
}
