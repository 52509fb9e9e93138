package cache

import (
	"testing"
	"time"

	"vitrine/cache/watch"
)

func TestProcessesOnOneRedisSeeEachOtherAndAreForgotten(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		one, two := openStore(t, b.url), openStore(t, b.url)
		announce := func(s *Store, report string) []Replica {
			t.Helper()
			must(t, s.Announce(t.Context(), []byte(report), time.Minute))
			all, err := s.Replicas(t.Context(), time.Minute)
			must(t, err)
			return all
		}
		if all := announce(one, "first"); len(all) != 1 || !all[0].Self || string(all[0].Report) != "first" {
			t.Errorf("alone: %+v", all)
		}
		announce(one, "first again")
		all := announce(two, "second")
		if len(all) != 2 || all[0].Self == all[1].Self || all[0].Age < 0 || all[0].Age > 10*time.Second {
			t.Fatalf("together: %+v", all)
		}
		for _, r := range all {
			if want := map[bool]string{true: "second", false: "first again"}[r.Self]; string(r.Report) != want {
				t.Errorf("%+v, want %q", r, want)
			}
		}
		if ttl := b.client.PTTL(t.Context(), "vitrine:replicas").Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("the list expires in %v", ttl)
		}

		must(t, one.Withdraw(t.Context()))
		if all := announce(two, "second"); len(all) != 1 {
			t.Errorf("after one has withdrawn: %+v", all)
		}
		must(t, b.client.HSet(t.Context(), "vitrine:replicas", "long gone", "12345 report", "nonsense", "x").Err())
		if all := announce(two, "second"); len(all) != 1 {
			t.Errorf("after one has died: %+v", all)
		}
		if n := b.client.HLen(t.Context(), "vitrine:replicas").Val(); n != 1 {
			t.Errorf("%d are kept", n)
		}
		must(t, b.client.Del(t.Context(), "vitrine:replicas").Err())
		must(t, b.client.Set(t.Context(), "vitrine:replicas", "an operator's mistake", 0).Err())
		if all := announce(two, "second"); len(all) != 1 {
			t.Errorf("after the list was overwritten: %+v", all)
		}
	})
}

func TestReportsDoNotDisturbWhatIsHeld(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src := newSource()
		s, r := replica(t, b.url, options(src))
		get(t, r)
		filled := watch.Now()
		eventually(t, "the fill itself is received", func() bool { return r.watched.ReceivedSince(filled) })
		eventually(t, "the copy is coherent", func() bool { return r.Snapshot().Coherent })
		mark := r.watched.Mark()
		for range 20 {
			must(t, s.Announce(t.Context(), []byte("here"), time.Minute))
		}
		must(t, s.Ping(t.Context()))
		if r.watched.Changed(&mark) {
			t.Error("a report was taken for an invalidation")
		}
		get(t, r)
		if n := src.loads.Load(); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
	})
}
