package cache

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
)

// from are options with another source, whose documents are fresh for a moment.
func from(src Loader, name string) ReaderOptions[int64] {
	o := options(src)
	o.Source, o.TTL = name, 50*time.Millisecond
	return o
}

// TestTwoSourcesDoNotAlternate has a fleet with a new mapping on one of two replicas, and then restarts
// the other one, and removes the new one.
func TestTwoSourcesDoNotAlternate(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		first, second := newSource(1), newSource(100)
		s1, one := replica(t, b.url, from(first, "old"))
		get(t, one)
		s2, two := replica(t, b.url, from(second, "new"))
		until(t, two, "the new source takes over", func(a Answer[int64]) bool { return a.Value == 100 })
		until(t, one, "the other replica serves it", func(a Answer[int64]) bool { return a.Value == 100 && one.Snapshot().Foreign })
		steady := func(readers ...*Reader[int64]) {
			t.Helper()
			old := first.loads.Load()
			for began := poll.Now(); poll.Now() < began+500*time.Millisecond; poll.Sleep(t.Context(), time.Millisecond) {
				for _, r := range readers {
					if a := get(t, r); a.Value != 100 {
						t.Fatalf("version %d is served", a.Value)
					}
				}
			}
			if n := first.loads.Load() - old; n > 0 {
				t.Fatalf("%d loads of another source than the fleet's", n)
			}
		}
		steady(one, two)
		must(t, s1.Close())
		s1, one = replica(t, b.url, from(first, "old"))
		steady(one, two)
		loads := second.loads.Load()
		eventually(t, "the fleet fetches for visitors of a replica with another source", func() bool {
			return get(t, one).Value == 100 && second.loads.Load() > loads+2
		})
		if two.Snapshot().Foreign || !one.Snapshot().Foreign {
			t.Error("the wrong one is foreign")
		}
		must(t, s2.Close())
		steady(one) // as a restart would
		must(t, b.client.HIncrBy(t.Context(), books, "source_seen", -lease.SourceSilent.Milliseconds()).Err())
		until(t, one, "a rollback takes over", func(a Answer[int64]) bool { return a.Value == 1 && !one.Snapshot().Foreign })
		must(t, s1.Close())
	})
}

func TestTheFleetsSourceIsRenewed(t *testing.T) {
	b := anyStore(t)
	_, r := replica(t, b.url, from(newSource(1), "old"))
	get(t, r)
	seen := func() int64 { n, _ := b.client.HGet(t.Context(), books, "source_seen").Int64(); return n }
	must(t, b.client.HIncrBy(t.Context(), books, "source_seen", -lease.SourceRenews.Milliseconds()-1000).Err())
	eventually(t, "it is seen, though nobody reads", func() bool { return time.Since(time.UnixMilli(seen())).Abs() < lease.SourceRenews/2 })
}

// TestWhoIsForeign asks the script that takes leases, and what a poll shows.
func TestWhoIsForeign(t *testing.T) {
	b := anyStore(t)
	for _, c := range []struct {
		fleet, known string
		seen         time.Duration // ago
		foreign      bool
	}{
		{"", "", 0, false},
		{"mine", "mine", 0, false},
		{"other", "other", 0, false},               // this one is new
		{"other", "other mine", 0, true},           // a restart
		{"other", "mine other", time.Second, true}, // whatever the order
		{"other", "mine other", lease.SourceSilent - 5*time.Second, true},
		{"other", "mine other", lease.SourceSilent + time.Second, false}, // a rollback
		{"other", "mine other", -time.Hour, false},                       // the clock was set back
		{"other", "mines other", 0, false},
	} {
		must(t, b.client.FlushDB(t.Context()).Err())
		now, err := b.client.Time(t.Context()).Result()
		must(t, err)
		must(t, b.client.HSet(t.Context(), books, "set", "s", "seq", 1, "source", c.fleet, "sources", c.known, "source_seen", now.Add(-c.seen).UnixMilli()).Err())
		rec, _, err := another().Look(t.Context(), b.client)
		if must(t, err); rec.Foreign("mine") != c.foreign {
			t.Errorf("%+v: a poll shows %v", c, !c.foreign)
		}
		ride := lease.Acquire(lease.Request{Token: "x/1", Length: time.Minute, TTL: time.Minute, Source: "mine"})
		p := b.client.Pipeline()
		got := ride.Send(t.Context(), p, another())
		_, err = p.Exec(t.Context())
		if must(t, err); (got.Val() == "foreign") != c.foreign {
			t.Errorf("%+v: %v", c, got.Val())
		}
		if now := b.client.HGet(t.Context(), books, "source").Val(); !c.foreign && now != "mine" {
			t.Errorf("%+v: the fleet has %s", c, now)
		}
	}
}

func TestTheKnownSourcesAreBounded(t *testing.T) {
	b := anyStore(t)
	for i := range 40 {
		ride := lease.Acquire(lease.Request{Token: fmt.Sprintf("x/%d", i+1), Length: time.Minute, TTL: time.Minute, Source: fmt.Sprint("s", i)})
		_, err := b.client.Pipelined(t.Context(), func(p redis.Pipeliner) error { ride.Send(t.Context(), p, another()); return nil })
		must(t, err)
	}
	if got := b.client.HGet(t.Context(), books, "sources").Val(); len(got) > 16*4 || got[:7] != "s39 s38" {
		t.Errorf("%q", got)
	}
}
