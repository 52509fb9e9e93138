package watch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// listening is a key whose server is listened to.
func listening() (*Key, *Server) {
	s := &Server{poked: make(chan struct{}, 1), again: make(chan struct{}, 1), w: &Watch{heartbeat: time.Millisecond, dial: &connector{}}}
	s.answered.Store(forever)
	s.pool.Store(redis.NewClient(&redis.Options{}))
	k := &Key{w: s.w, notify: func(Event) {}}
	k.changes.Store(1)
	k.server.Store(s)
	k.begin(s)
	return k, s
}

// written makes a write that ends like that, during which so many changes are received.
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
		unseen        bool
	}{
		"its own, before the reply":         {during: 1, changed: true},
		"its own, after the reply":          {after: 1, changed: true},
		"another, before the reply":         {during: 2, changed: true, unseen: true},
		"another, after the reply":          {during: 1, after: 1, changed: true, unseen: true},
		"of a write that changed nothing":   {during: 1, unseen: true},
		"of a write that was refused":       {during: 1, err: redis.ErrClosed, unseen: true},
		"of a write whose reply never came": {during: 1, changed: true, err: context.Canceled, unseen: true},
		"nothing, of a write that was none": {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k, _ := listening()
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
			if k.Unseen(&m) != test.unseen || (k.Since(&m).Changes > 0) != test.unseen {
				t.Errorf("unseen: %t, want %t", !test.unseen, test.unseen)
			}
			if received := test.during+test.after > 0; k.Changed(&m) != received {
				t.Errorf("changed: %t, want %t", !received, received)
			}
		})
	}
}

// TestOwnWritesAccountForAChangeEach has a stub and a fill follow each other faster than they are
// announced.
func TestOwnWritesAccountForAChangeEach(t *testing.T) {
	k, _ := listening()
	stub := written(t, k, 0, true, nil)
	fill := written(t, k, 0, true, nil)
	look := k.Mark()
	k.change(false)
	k.change(false)
	if k.Unseen(&fill) || k.Unseen(&look) {
		t.Error("its own announcements withdraw what a process knows from its writes, or has read since")
	}
	if !k.Unseen(&stub) {
		t.Error("what was known before the fill does not allow for it")
	}
	k.change(false)
	if !k.Unseen(&fill) || !k.Unseen(&look) {
		t.Error("a purge is taken for an own write")
	}
}

// TestASessionTrustsNothingFromBeforeIt has another one begin after a read, a write and a change.
func TestASessionTrustsNothingFromBeforeIt(t *testing.T) {
	k, s := listening()
	read, wrote := k.Mark(), written(t, k, 0, true, nil)
	if !k.Trusts(&read, 0) || !k.Since(&read).Listened {
		t.Fatal("what was read in this session is not trusted")
	}
	k.change(true)
	if got := k.Since(&read); got.Changes != 1 || !got.Flushed || !k.Unseen(&read) || k.Unseen(&wrote) {
		t.Errorf("received %+v", got)
	}
	s.answered.Store(never)
	k.begin(s)
	s.answered.Store(forever)
	for _, m := range []Mark{read, wrote, read.Unread()} {
		if got := k.Since(&m); k.Trusts(&m, 0) || got.Listened || got.Changes > 0 {
			t.Errorf("received %+v since %+v", got, m)
		}
	}
	m := k.Mark()
	k.change(false)
	if !k.Unseen(&m) || !k.Unseen(&wrote) {
		t.Error("a change in the new session is taken for the write before it")
	}
	k.move(&Server{w: s.w})
	if m = k.Mark(); k.Trusts(&m, 0) || k.Since(&m).Listened {
		t.Error("a server that does not track the key is trusted")
	}
}

func TestAWriteThatIsNotAnnouncedIsMissed(t *testing.T) {
	k, s := listening()
	written(t, k, 0, true, nil)
	if sent := k.wrote; k.settle(sent) || !k.settle(sent+1) || k.settle(sent+1) {
		t.Error("want it missed once, when a ping that was sent after it is answered")
	}
	written(t, k, 1, true, nil)
	if k.settle(Now() + 1) {
		t.Error("it was announced")
	}
	written(t, k, 0, true, nil)
	k.begin(s)
	if k.settle(Now() + 1) {
		t.Error("it may have been announced in the session before")
	}
}

// TestALookIsConfirmedByItsOwnSession has the answer to a ping come, another session begin, and
// none.
func TestALookIsConfirmedByItsOwnSession(t *testing.T) {
	k, s := listening()
	m := k.Mark()
	if !k.Confirm(t.Context(), &m) {
		t.Error("the answer is there")
	}
	s.answered.Store(0)
	time.AfterFunc(5*time.Millisecond, func() {
		k.begin(s)
		s.answered.Store(forever)
	})
	if k.Confirm(t.Context(), &m) {
		t.Error("another session confirms it")
	}
}

func TestTrackedPrefixesDoNotOverlap(t *testing.T) {
	var keys []*Key
	for _, name := range []string{"rules", "rules2", "banners"} {
		keys = append(keys, &Key{name: name, beside: "lease:{" + name + "}"})
	}
	if got := tracked(keys); !slices.Equal(got, []string{"banners", "lease:", "rules"}) {
		t.Errorf("got %q", got)
	}
	tagged := &Key{name: "{a}:rules", beside: "{a}:lease:{{a}:rules}"}
	if got := tracked([]*Key{tagged}); !slices.Equal(got, []string{"{a}:lease:", "{a}:rules"}) {
		t.Errorf("got %q", got)
	}
}

// TestACallOnOldConnectionsDoesNotLoseTheServer has calls fail that began before the session, and
// in it.
func TestACallOnOldConnectionsDoesNotLoseTheServer(t *testing.T) {
	k, s := listening()
	s.ctx, s.w.o.Log = t.Context(), slog.New(slog.DiscardHandler)
	began := Now()
	s.begun.Store(int64(Now()))
	if s.fail(began, redis.ErrClosed); !k.Up() {
		t.Error("lost by a call that began before the session")
	}
	if s.fail(Now(), redis.ErrClosed); k.Up() {
		t.Error("not lost by a call that began in the session")
	}
}
