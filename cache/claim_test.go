package cache

import (
	"testing"
	"time"

	"vitrine/cache/redistest"
)

func TestClaimIsOfOneProcessUntilItIsGivenBackOrRunsOut(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		one, other := openStore(t, b.url), openStore(t, b.url)
		release, ok := one.Claim(t.Context(), "probe:cms", time.Hour)
		if !ok {
			t.Fatal("a free name was not given")
		}
		for name, s := range map[string]*Store{"another": other, "the same": one} {
			if _, ok := s.Claim(t.Context(), "probe:cms", time.Hour); ok {
				t.Errorf("%s process claimed what is taken", name)
			}
		}
		if left := b.client.PTTL(t.Context(), "vitrine:probe:cms").Val(); left < time.Minute || left > time.Hour {
			t.Errorf("the claim expires in %v", left)
		}
		release(0)
		give, ok := other.Claim(t.Context(), "probe:cms", time.Hour)
		if !ok {
			t.Fatal("what was given back is not free")
		}
		release(0) // of a claim that is over
		if _, ok := one.Claim(t.Context(), "probe:cms", time.Hour); ok {
			t.Error("a claim that is over gave back another's")
		}
		give(0)
		keep, ok := one.Claim(t.Context(), "probe:cms", time.Hour)
		if !ok {
			t.Fatal("what was given back is not free")
		}
		keep(20 * time.Millisecond)
		if left := b.client.PTTL(t.Context(), "vitrine:probe:cms").Val(); left > 20*time.Millisecond {
			t.Errorf("it is kept for %v", left)
		}
		if b.name == "redis-server" {
			eventually(t, "the claim runs out", func() bool {
				_, ok := other.Claim(t.Context(), "probe:cms", time.Hour)
				return ok
			})
		}
	})
}

func TestClaimIsGivenWhileRedisIsAway(t *testing.T) {
	server := redistest.Start(t)
	s := openStore(t, server.URL())
	server.Kill()
	for range 2 {
		release, ok := s.Claim(t.Context(), "probe:cms", time.Hour)
		if !ok {
			t.Fatal("nothing was given")
		}
		release(0)
	}
}
