package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// rights is the smallest ACL under which all works, as docs/purging.md shows it. HELLO and AUTH
// need no right.
var rights = []string{
	"~vitrine:*",
	"+eval", "+evalsha",
	"+hmget", "+hget", "+hkeys", "+hlen", "+hstrlen", "+hset", "+hdel", "+del", "+type", "+pexpire", "+pexpireat", "+pttl", "+time",
}

// told are further rights: to notice that another server answers at the address, and to replace a
// value of another type that somebody has written.
var told = []string{"+info", "+set"}

// TestSmallestACL goes through everything that vitrine does in Redis under those rights, and then
// without each of them.
func TestSmallestACL(t *testing.T) {
	server := startRedis(t)
	admin := server.Client()
	for _, rights := range [][]string{append(slices.Clone(rights), told...), rights} {
		if err := cycle(t, server, admin, rights); err != nil {
			t.Fatalf("with %v: %v", rights, err)
		}
	}
	for i, right := range rights {
		less := slices.Delete(slices.Clone(rights), i, i+1)
		if err := cycle(t, server, admin, less); err == nil {
			t.Errorf("without %s everything works as well", right)
		} else {
			t.Logf("without %s: %v", right, err)
		}
	}
}

// cycle does everything once, as a user with these rights alone, and says what does not work.
func cycle(t *testing.T, server *redistest.Server, admin *redis.Client, rights []string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	args := []any{"ACL", "SETUSER", "vitrine", "reset", "on", ">secret"}
	for _, right := range rights {
		args = append(args, right)
	}
	must(t, admin.Do(ctx, args...).Err())
	must(t, admin.FlushAll(ctx).Err())
	must(t, admin.ScriptFlush(ctx).Err())

	log := &lines{}
	src := newSource()
	var down atomic.Bool
	o := ReaderOptions[int64]{
		TTL: time.Minute, StaleWhileRevalidate: time.Minute, StaleIfError: time.Hour, Prepare: prepare,
		BackoffFirst: time.Millisecond, BackoffMost: time.Millisecond,
		Loader: LoaderFunc(func(ctx context.Context, key string, held *Document) (Loaded, error) {
			if down.Load() {
				return Loaded{}, errors.New("the source is down")
			}
			return src.Load(ctx, key, held)
		}),
	}
	// The second replica reads what the first has stored.
	open := func() (*Store, *Reader[int64]) {
		s, err := Open(ctx, Options{URL: "redis://vitrine:secret@" + server.Addr, Timeout: patient, PurgeBound: time.Second, Logger: log.logger()})
		must(t, err)
		r, err := NewReader(s, "banners", o)
		must(t, err)
		return s, r
	}
	store, first := open()
	defer func() { must(t, store.Close()) }()
	another, second := open()
	defer func() { must(t, another.Close()) }()
	replicas := []*Reader[int64]{first, second}

	// until waits for an answer of each replica that is as it should be, or a complaint.
	until := func(what string, ok func(a Answer[int64], err error) bool) error {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for at := 0; at < len(replicas); {
			a, err := replicas[at].Get(ctx)
			if warnings := log.warnings(); len(warnings) > 0 {
				return fmt.Errorf("%s: %s", what, warnings[0])
			}
			if ok(a, err) {
				at++
				continue
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s: not within the time; last %+v, %w", what, a.Status, err)
			case <-tick.C:
			}
		}
		return nil
	}
	version := func(want int64) func(Answer[int64], error) bool {
		return func(a Answer[int64], err error) bool {
			return err == nil && a.Value == want && a.Status.Detail == DetailMemory
		}
	}
	purge := func(soft bool) error {
		src.version.Add(1)
		held, err := store.Purge(ctx, "banners", soft, "somebody")
		if err == nil && !held {
			err = errors.New("there was nothing to purge")
		}
		return err
	}

	if err := until("first fetch", version(1)); err != nil {
		return err
	}
	// What is kept of it comes a moment after.
	for kept, err := store.History(ctx, "banners"); len(kept) == 0; kept, err = store.History(ctx, "banners") {
		if warnings := log.warnings(); err != nil || len(warnings) > 0 || ctx.Err() != nil {
			return fmt.Errorf("no history: %w, %v", err, warnings)
		}
	}
	if err := purge(false); err != nil {
		return fmt.Errorf("hard Purge: %w", err)
	}
	if err := until("after a hard purge", version(2)); err != nil {
		return err
	}
	if err := purge(true); err != nil {
		return fmt.Errorf("soft Purge: %w", err)
	}
	if err := until("after a soft purge", version(3)); err != nil {
		return err
	}
	down.Store(true)
	if err := purge(false); err != nil {
		return fmt.Errorf("hard Purge: %w", err)
	}
	if err := until("the source fails", func(_ Answer[int64], err error) bool { return err != nil }); err != nil {
		return err
	}
	down.Store(false)
	if err := until("the source works again", version(4)); err != nil {
		return err
	}
	src.version.Add(1)
	must(t, admin.Set(ctx, key, "not a hash", 0).Err())
	return until("something else was under the key", version(5))
}

// lines is a log that can be read while it is written.
type lines struct{ testkit.Buffer }

// warnings are the lines at warn or above.
func (l *lines) warnings() []string {
	var found []string
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			found = append(found, line)
		}
	}
	return found
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
