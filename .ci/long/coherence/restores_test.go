package coherence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cache/poll"
)

// Restores does to one document what an operator can do, at random moments and one thing after the
// other, while all nodes are read: hard and soft purges, and restores of earlier versions, also with a
// purge right behind. Then it holds each answer against that:
//
//   - asked for more than the bound after a hard purge, it has the purge's version or a later one, or
//     one that was restored after the purge;
//   - asked for more than the bound after a restore, and given before anything else was done, it is
//     that version, restored, or said to be stale while that is read.
type Restores struct {
	Key    string
	Origin *Origin
	Nodes  []*Node
	Client redis.Cmdable
	Seed   uint64 // 0: any
	Odd    bool   // the operator does odd things as well: see removals and meddlings

	start   time.Time
	chance  *rand.Rand
	done    []deed
	answers [][]given // by node
}

// A deed is what the operator did: when it was sent, and when it had surely taken effect. One that a
// purge may have overtaken, or that the history no longer had, has perhaps no effect.
type deed struct {
	kind        string // hard, soft, restore, or odd
	version     int64  // that what is fetched after a purge has at least; or that was restored
	sent, acked time.Duration
	overtaken   bool
	commands    string // of what is odd
}

// given is an answer.
type given struct {
	version      int64
	asked, ended time.Duration
	status       cache.Status
}

// Run does so many things, and reports what must not be.
func (c *Restores) Run(t testing.TB, deeds int) {
	t.Helper()
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	t.Logf("seed %d", c.Seed)
	c.start, c.chance = time.Now(), rand.New(rand.NewPCG(c.Seed, 1))
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	c.answers = make([][]given, len(c.Nodes))
	for i, n := range c.Nodes {
		readers.Go(func() {
			for ctx.Err() == nil {
				asked := time.Since(c.start)
				version, status, err := n.Get(ctx, c.Key)
				if ctx.Err() == nil && err != nil {
					t.Errorf("replica %d: %v", i+1, err)
					return
				}
				lost := c.Odd && status.Detail == cache.DetailRedisLost // all was removed while a replica was cut off
				if err == nil && status.Detail != cache.DetailRedisAway && !lost {
					c.answers[i] = append(c.answers[i], given{version, asked, time.Since(c.start), status})
				}
				poll.Sleep(ctx, time.Millisecond)
			}
		})
	}
	for len(c.done) < deeds && !t.Failed() {
		c.act(ctx, t)
		gap := time.Duration(c.chance.Int64N(int64(6 * time.Millisecond)))
		if c.chance.IntN(3) == 0 {
			gap += 2 * Bound // what stays wrong is seen to be wrong
		}
		poll.Sleep(ctx, gap)
	}
	if t.Failed() {
		t.Logf("at %v, after %+v", time.Since(c.start), c.done[max(0, len(c.done)-5):])
	}
	stop()
	readers.Wait()
	c.check(t)
}

// act does one thing.
func (c *Restores) act(ctx context.Context, t testing.TB) {
	full := Prefix + c.Key
	begin := func(kind string, version int64) *deed {
		c.done = append(c.done, deed{kind: kind, version: version, sent: time.Since(c.start)})
		return &c.done[len(c.done)-1]
	}
	hard := func() {
		d := begin("hard", c.Origin.Version.Add(1))
		must(t, c.Client.Del(ctx, full).Err())
		d.acked = time.Since(c.start)
	}
	refused := func(err error) bool { // as what stands there is of another type
		if !c.Odd || !poll.Replied(err) {
			must(t, err)
			return false
		}
		c.done = c.done[:len(c.done)-1]
		return true
	}
	if c.Odd && c.chance.IntN(2) > 0 {
		c.odd(ctx, t, begin)
		return
	}
	switch kind := c.chance.IntN(8); kind {
	case 0, 1:
		hard()
	case 2:
		d := begin("soft", c.Origin.Version.Add(1))
		if refused(c.Client.HSet(ctx, full, "fresh_until", 0).Err()) {
			return
		}
		d.acked = time.Since(c.start)
	default:
		all, err := c.Nodes[0].Store.History(ctx, c.Key)
		if c.Odd && poll.Replied(err) {
			return
		}
		if must(t, err); len(all) == 0 {
			return
		}
		name := all[c.chance.IntN(len(all))].Name
		kept, err := c.Nodes[0].Store.Version(ctx, c.Key, name)
		if errors.Is(err, cache.ErrNoVersion) {
			return
		}
		must(t, err)
		version, err := Prepare(kept)
		must(t, err)
		d := begin("restore", version)
		_, err = c.Nodes[c.chance.IntN(len(c.Nodes))].Store.Restore(ctx, c.Key, name, time.Hour, "test", nil)
		if errors.Is(err, cache.ErrNoVersion) || errors.Is(err, cache.ErrChanged) { // it had to make room meanwhile, or another was written
			c.done = c.done[:len(c.done)-1]
			return
		}
		must(t, err)
		if kind == 7 {
			poll.Sleep(ctx, time.Duration(c.chance.Int64N(int64(2*time.Millisecond))))
			d.acked, d.overtaken = time.Since(c.start), true
			hard()
			return
		}
		d.acked = time.Since(c.start)
	}
}

// removals are what counts as a hard purge, and meddlings what need not be one, and makes nothing
// older. KEY is the hash, LOCK and PAST the two beside it; commands with a semicolon between them are
// one transaction.
var (
	removals = []string{
		"UNLINK KEY", "EXPIRE KEY 0", "PEXPIREAT KEY 1", "SET KEY x", "DEL KEY ; LPUSH KEY x", "DEL KEY ; HSET KEY fresh_until 0",
		"RENAME KEY elsewhere", "COPY KEY elsewhere REPLACE ; DEL KEY", "HSET foreign set a seq 1 etag b body c ; RENAME foreign KEY",
		"HSET foreign body c ; COPY foreign KEY REPLACE", "DEL elsewhere ; MOVE KEY 3 ; DEL KEY", "DEL KEY LOCK", "DEL KEY LOCK PAST",
		"FLUSHDB", "FLUSHALL", "FLUSHDB ASYNC", "DEL KEY ; SCRIPT FLUSH", "DEL KEY ; SET LOCK x", "HDEL KEY set ; DEL KEY",
		"HSET KEY fresh_until 0 ; DEL KEY", "DEL KEY ; CLIENT KILL TYPE pubsub", "DEL KEY ; CLIENT KILL TYPE normal SKIPME yes",
	}
	meddlings = []string{
		"SCRIPT FLUSH", "CLIENT KILL TYPE normal SKIPME yes", "CLIENT KILL TYPE pubsub", "EXPIRE KEY 100", "PERSIST KEY", "TOUCH KEY",
		"DEL LOCK", "DEL PAST", "SET LOCK x", "SET PAST x", "DEL LOCK ; LPUSH LOCK x", "COPY KEY vitrine:rules REPLACE",
		"HDEL KEY body", "HDEL KEY etag", "HDEL KEY seq", "HDEL KEY set", "HSET KEY seq 99999", "HSET LOCK seq 99999", "HSET LOCK set x",
		"HINCRBY KEY seq -1", "HSET KEY body x", "HSET KEY fetched_at 1", "HSET KEY fetched_at 99999999999999", "HSET KEY fresh_until 99999999999999",
		"HSET KEY fresh_until -1", "HDEL LOCK lease", "HDEL LOCK set seq", "EXPIRE LOCK 0", "RENAME KEY aside ; RENAME aside KEY",
		"HSET KEY restored_by x", "HDEL KEY restored_by", "HSET LOCK held_since 1 held_seq 1 held_reason x", "HSET LOCK until 1 until_seq 1",
	}
)

// odd does something odd.
func (c *Restores) odd(ctx context.Context, t testing.TB, begin func(kind string, version int64) *deed) {
	full := Prefix + c.Key
	names := strings.NewReplacer("KEY", full, "LOCK", Prefix+"lease:{"+full+"}", "PAST", Prefix+"history:{"+full+"}")
	var d *deed
	if c.chance.IntN(2) > 0 {
		d = begin("hard", c.Origin.Version.Add(1))
		d.commands = removals[c.chance.IntN(len(removals))]
	} else {
		d = begin("odd", 0)
		d.commands = meddlings[c.chance.IntN(len(meddlings))]
	}
	_, err := c.Client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		for command := range strings.SplitSeq(d.commands, ";") {
			var words []any
			for word := range strings.FieldsSeq(names.Replace(command)) {
				words = append(words, word)
			}
			tx.Do(ctx, words...)
		}
		return nil
	})
	if !poll.Replied(err) { // what does not apply is left out
		must(t, err)
	}
	d.acked = time.Since(c.start)
}

// check holds the answers against what was done.
func (c *Restores) check(t testing.TB) {
	t.Helper()
	count, restored := 0, 0
	for i, all := range c.answers {
		for _, a := range all {
			count++
			if wrong := c.wrong(a); wrong != "" {
				t.Errorf("replica %d, asked at %v: version %d (%+v): %s", i+1, a.asked, a.version, a.status, wrong)
				break // one of each is enough
			}
			if a.status.Detail == cache.DetailRestored {
				restored++
			}
		}
	}
	t.Logf("%d answers, %d of them restored, held against %d deeds", count, restored, len(c.done))
	if restored == 0 || restored == count {
		t.Errorf("%d of %d answers are restored", restored, count)
	}
}

// wrong is why an answer must not be, or "".
func (c *Restores) wrong(a given) string {
	last := -1 // the last hard purge that it must show
	for i := range c.done {
		d := &c.done[i]
		if d.kind == "hard" && d.acked+Bound < a.asked {
			last = i
		}
		next := i + 1
		if d.kind != "restore" || d.overtaken || d.acked+Bound >= a.asked || next < len(c.done) && a.ended >= c.done[next].sent {
			continue
		}
		if a.status.Stale && a.asked < d.acked+4*Bound { // the body is still being read
			continue
		}
		if a.version != d.version || a.status.Detail != cache.DetailRestored {
			return fmt.Sprintf("version %d was restored, and that was acknowledged at %v", d.version, d.acked)
		}
	}
	if last < 0 || a.version >= c.done[last].version {
		return ""
	}
	for _, d := range c.done[last+1:] {
		if d.kind == "restore" && d.version == a.version && d.sent <= a.ended {
			return ""
		}
	}
	return fmt.Sprintf("it was purged up to version %d, which was acknowledged at %v, amid %+v",
		c.done[last].version, c.done[last].acked, c.done[max(0, last-5):min(last+5, len(c.done))])
}

// TestACheckerOfRestoresFindsWhatMustNotBe gives it answers that a purge and a restore forbid.
func TestACheckerOfRestoresFindsWhatMustNotBe(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	c := &Restores{done: []deed{
		{kind: "hard", version: 5, sent: at(100), acked: at(101)},
		{kind: "restore", version: 2, sent: at(300), acked: at(301)},
		{kind: "hard", version: 6, sent: at(500), acked: at(501)},
		{kind: "restore", version: 3, sent: at(700), overtaken: true},
		{kind: "hard", version: 7, sent: at(701), acked: at(702)},
	}}
	answer := func(version int64, ms int, detail string) given {
		g := given{version: version, asked: at(ms), ended: at(ms + 1)}
		g.status.Detail = detail
		return g
	}
	for _, a := range []struct {
		given
		fine bool
	}{
		{answer(4, 140, "memory"), true}, {answer(4, 152, "memory"), false}, {answer(5, 152, "memory"), true},
		{answer(2, 250, "restored"), false}, {answer(2, 310, "restored"), true}, {answer(5, 310, "memory"), true},
		{answer(5, 360, "memory"), false}, {answer(2, 360, "memory"), false}, {answer(2, 360, "restored"), true},
		{answer(2, 540, "restored"), true}, {answer(2, 560, "restored"), false}, {answer(6, 560, "memory"), true},
		{answer(3, 740, "restored"), true}, {answer(3, 760, "restored"), false},
	} {
		if wrong := c.wrong(a.given); (wrong == "") != a.fine {
			t.Errorf("%+v: %q", a.given, wrong)
		}
	}
}
