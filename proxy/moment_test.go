package proxy

import (
	"testing"
	"time"

	"vitrine/cache"
)

func TestWhatDownstreamCachesAreTold(t *testing.T) {
	fetched := time.Date(2026, time.November, 21, 12, 0, 0, 500e6, time.UTC)
	doc := &cache.Document{FetchedAt: fetched, ChangedAt: fetched.Add(-24 * time.Hour), FreshUntil: fetched.Add(time.Minute)}
	hit, forwarded := cache.Status{Hit: true}, cache.Status{Fwd: cache.FwdMiss, FwdStatus: 200, Stored: true}
	usual := policy{staleWhileRevalidate: 5 * time.Minute, staleIfError: 24 * time.Hour}
	keeping := usual
	keeping.maxAge = 10 * time.Second
	long := usual
	long.maxAge = time.Hour
	for _, tc := range []struct {
		name                           string
		policy                         policy
		after                          time.Duration
		status                         cache.Status
		age, cacheControl, cacheStatus string
	}{
		{"fresh", usual, 18 * time.Second, hit, "18", "public, max-age=0, stale-if-error=86400", "vitrine; hit; ttl=42"},
		{"parts of a second favour nobody", usual, 18900 * time.Millisecond, hit, "18", "public, max-age=0, stale-if-error=86400", "vitrine; hit; ttl=41"},
		{"nothing offered", policy{}, 0, hit, "0", "public, max-age=0", "vitrine; hit; ttl=60"},
		{"kept for longer, of a certain age", keeping, 18 * time.Second, hit, "18",
			"public, max-age=28, stale-while-revalidate=32, stale-if-error=86400", "vitrine; hit; ttl=42"},
		{"never past its freshness here", keeping, 53 * time.Second, hit, "53", "public, max-age=60, stale-if-error=86400", "vitrine; hit; ttl=7"},
		{"not however long it may be", long, 18 * time.Second, hit, "18", "public, max-age=60, stale-if-error=86400", "vitrine; hit; ttl=42"},
		{"stale", keeping, 75 * time.Second, cache.Status{Hit: true, Stale: true, Detail: cache.DetailRevalidate}, "75",
			"public, max-age=0, stale-if-error=86400", "vitrine; hit; ttl=-15; detail=stale-while-revalidate"},
		{"fetched for this request", usual, 0, forwarded, "0", "public, max-age=0, stale-if-error=86400", "vitrine; fwd=miss; fwd-status=200; stored"},
		{"fetched for another", usual, 0, cache.Status{Fwd: cache.FwdStale, Collapsed: true, Detail: cache.DetailRedisAway}, "0",
			"public, max-age=0, stale-if-error=86400", "vitrine; fwd=stale; collapsed; detail=redis-away"},
		{"from memory", usual, 0, cache.Status{Hit: true, Detail: cache.DetailMemory}, "0", "public, max-age=0, stale-if-error=86400", "vitrine; hit; ttl=60"},
		{"from Redis", usual, 0, cache.Status{Hit: true, Detail: cache.DetailRedis}, "0", "public, max-age=0, stale-if-error=86400", "vitrine; hit; ttl=60; detail=redis"},
		{"a clock that went back", usual, -5 * time.Second, hit, "0", "public, max-age=0, stale-if-error=86400", "vitrine; hit; ttl=65"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMoment(&tc.policy, doc, &tc.status, fetched.Add(tc.after))
			if got := string(m.age); got != tc.age {
				t.Errorf("Age: %s, want %s", got, tc.age)
			}
			if got := string(m.cacheControl); got != tc.cacheControl {
				t.Errorf("Cache-Control: %s, want %s", got, tc.cacheControl)
			}
			if got := string(m.cacheStatus); got != tc.cacheStatus {
				t.Errorf("Cache-Status: %s, want %s", got, tc.cacheStatus)
			}
			if got, want := string(m.lastModified), "Fri, 20 Nov 2026 12:00:00 GMT"; got != want {
				t.Errorf("Last-Modified: %s, want %s", got, want)
			}
		})
	}
}

func TestAMomentIsSharedWithinItsSecond(t *testing.T) {
	at := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	doc := &cache.Document{FetchedAt: at, ChangedAt: at, FreshUntil: at.Add(time.Minute)}
	hit := cache.Status{Hit: true}
	var p Prepared
	var pol policy
	first := p.at(&pol, doc, &hit, at)
	if p.at(&pol, doc, &hit, at.Add(999*time.Millisecond)) != first {
		t.Error("rendered again within the second")
	}
	confirmed := *doc
	for name, other := range map[string]*moment{
		"the next second":  p.at(&pol, doc, &hit, at.Add(time.Second)),
		"another status":   p.at(&pol, doc, &cache.Status{Hit: true, Stale: true}, at),
		"another document": p.at(&pol, &confirmed, &hit, at),
		"another policy":   p.at(new(policy{maxAge: 1}), doc, &hit, at),
	} {
		if other == first {
			t.Errorf("%s is told what was true before", name)
		}
	}
}
