package proxy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"vitrine/cache"
	"vitrine/cmd/testkit"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// dictionary parses a field by RFC 8941.
func dictionary(t *testing.T, got reply, name string) *httpsfv.Dictionary {
	t.Helper()
	d, err := httpsfv.UnmarshalDictionary(got.Header.Values(name))
	if err != nil {
		t.Fatalf("%s: %q: %v", name, got.Header.Values(name), err)
	}
	return d
}

// directive is the value of a member of a dictionary, nil if it is not there.
func directive(d *httpsfv.Dictionary, name string) any {
	member, ok := d.Get(name)
	if !ok {
		return nil
	}
	item, ok := member.(httpsfv.Item)
	if !ok {
		return fmt.Errorf("not an item: %v", member)
	}
	return item.Value
}

func TestRFC9111And9213CachesAreToldHowLongAndNoLonger(t *testing.T) {
	o := Options{
		MaxAge: 20 * time.Second, StaleWhileRevalidate: 5 * time.Minute, StaleIfError: time.Hour,
		CDNMaxAge: 30 * time.Second, CDNStaleWhileRevalidate: 10 * time.Second,
	}
	// The document is 10 s old and fresh for another 59.
	says := func(field string, want map[string]any) func(*testing.T, reply) {
		return func(t *testing.T, got reply) {
			d := dictionary(t, got, field)
			for name, value := range want {
				if have := directive(d, name); have != value {
					t.Errorf("%s: %v: %s is %v, want %v", field, got.Header.Values(field), name, have, value)
				}
			}
		}
	}
	run(t, o, []rule{
		{"9111 4.2.1 max-age counts from when the document was made", getBanners, 200, nil, says("Cache-Control", map[string]any{"max-age": int64(30)})},
		{"9111 4.2.3 which Age tells", getBanners, 200, []string{"Age: 10"}, nil},
		{"9111 4.3.4 a 304 renews both", getBanners + "If-None-Match: TAG", 304, []string{"Age: 10"}, says("Cache-Control", map[string]any{"max-age": int64(30)})},
		{"9111 4.1 an unknown parameter makes no other entry here", getBanners[:len(getBanners)-1] + "?utm_source=x", 200, []string{"ETag: TAG"}, nil},
		{"9111 5.2.1 no-cache of a request does not reach the CMS", getBanners + "Cache-Control: no-cache\nPragma: no-cache", 200, nil, func(t *testing.T, got reply) {
			if !strings.HasPrefix(got.Header.Get("Cache-Status"), "vitrine; hit") {
				t.Errorf("%v", got.Header)
			}
		}},
		{"9111 5.2.1.7 nor does only-if-cached fail", getBanners + "Cache-Control: only-if-cached", 200, nil, nil},
		{"9111 5.2.2.9 public: also for requests with Authorization", getBanners + "Authorization: Bearer x", 200, nil, says("Cache-Control", map[string]any{"public": true})},
		{"9111 5.2.2.10 s-maxage says the same to caches that do not read CDN-Cache-Control", getBanners, 200, nil, says("Cache-Control", map[string]any{"s-maxage": int64(40)})},
		{"9111 5.2.2.5 an error that passes is not stored", "GET /nope?" + strings.Repeat("x", 5000), 414, []string{"Cache-Control: no-store"}, nil},
		{"9111 5.3 no Expires beside max-age", getBanners, 200, []string{"Expires: -"}, nil},
		{"9111 5.4 no Pragma in an answer", getBanners, 200, []string{"Pragma: -"}, nil},
		{"5861 3 stale-while-revalidate ends with the freshness here", getBanners, 200, nil, says("Cache-Control", map[string]any{"stale-while-revalidate": int64(39)})},
		{"5861 4 stale-if-error", getBanners, 200, nil, says("Cache-Control", map[string]any{"stale-if-error": int64(3600)})},
		{"9213 2.1 CDN-Cache-Control is a dictionary", getBanners, 200, nil, says("CDN-Cache-Control", map[string]any{"public": true, "max-age": int64(40)})},
		{"9213 2.2 it is complete, since it is read instead", getBanners, 200, nil, says("CDN-Cache-Control", map[string]any{"stale-while-revalidate": int64(10), "stale-if-error": int64(3600)})},
		{"9213 2.2 on a 304 as well", getBanners + "If-None-Match: TAG", 304, nil, says("CDN-Cache-Control", map[string]any{"max-age": int64(40)})},
		{"9213 2.2 an error has none that could weaken no-store", "GET /nope?" + strings.Repeat("x", 5000), 414, []string{"CDN-Cache-Control: -"}, nil},
	})
}

func TestRFC9111Section4_2NoCacheKeepsADocumentPastItsFreshnessHere(t *testing.T) {
	for _, maxAge := range []time.Duration{0, time.Second, time.Minute, 24 * time.Hour} {
		browsers, cdns := policies(&Options{
			MaxAge: maxAge, StaleWhileRevalidate: 24 * time.Hour, CDNMaxAge: maxAge, CDNStaleWhileRevalidate: 24 * time.Hour, StaleIfError: time.Hour,
		})
		for age := range int64(100) {
			for ttl := int64(-50); ttl < 200; ttl += 7 {
				for _, value := range [][]byte{browsers.directives(age, ttl), cdns.directives(age, ttl)} {
					d, err := httpsfv.UnmarshalDictionary([]string{string(value)})
					if err != nil {
						t.Fatalf("%s: %v", value, err)
					}
					number := func(name string) int64 {
						n, _ := directive(d, name).(int64)
						return n
					}
					fresh := max(0, number("max-age")-age)
					if kept := fresh + number("stale-while-revalidate"); kept > max(0, ttl) || fresh > int64(maxAge/time.Second) {
						t.Fatalf("max-age %v, age %d, ttl %d: %s keeps it for %d", maxAge, age, ttl, value, kept)
					}
					if given := fresh + number("stale-if-error"); given > max(0, ttl)+3600 || ttl < 0 && given > 3600+ttl {
						t.Fatalf("max-age %v, age %d, ttl %d: %s gives it for %d in case of an error", maxAge, age, ttl, value, given)
					}
				}
			}
		}
	}
}

func TestRFC9211CacheStatusIsAListOfStructuredFields(t *testing.T) {
	r := newRig(t, Options{})
	token := func(s string) httpsfv.Token { return httpsfv.Token(s) }
	for _, tc := range []struct {
		name   string
		status cache.Status
		err    error
		want   map[string]any
	}{
		{"2.1 hit", cache.Status{Detail: cache.DetailMemory}, nil, map[string]any{"hit": true, "ttl": int64(42)}},
		{"2.8 detail", cache.Status{Detail: cache.DetailRedis}, nil, map[string]any{"hit": true, "ttl": int64(42), "detail": token("redis")}},
		{"2.2 fwd", cache.Status{Fwd: cache.FwdMiss, FwdStatus: 200, Stored: true}, nil, map[string]any{"fwd": token("miss"), "fwd-status": int64(200), "stored": true}},
		{"2.3 fwd-status", cache.Status{Fwd: cache.FwdStale, FwdStatus: 304, Stored: true}, nil, map[string]any{"fwd": token("stale"), "fwd-status": int64(304), "stored": true}},
		{"2.6 collapsed", cache.Status{Fwd: cache.FwdMiss, Collapsed: true, Stored: true, Detail: cache.DetailLeaseElsewhere}, nil,
			map[string]any{"fwd": token("miss"), "stored": true, "collapsed": true, "detail": token("lease-elsewhere")}},
		{"2.4 a stale hit", cache.Status{Stale: true, Detail: cache.DetailIfError}, nil, map[string]any{"hit": true, "ttl": int64(42), "detail": token("stale-if-error")}},
		{"2.5 not stored", cache.Status{Fwd: cache.FwdMiss, FwdStatus: 200, Detail: cache.DetailRedisAway}, nil, map[string]any{"fwd": token("miss"), "fwd-status": int64(200), "detail": token("redis-away")}},
		{"2 of an error", cache.Status{}, upstream.ErrUnreachable, map[string]any{"fwd": token("miss"), "detail": token("upstream-unreachable")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := time.Now()
			doc := &cache.Document{Body: []byte("[]"), ETag: cache.ETag([]byte("[]")), FetchedAt: now, ChangedAt: now, FreshUntil: now.Add(42500 * time.Millisecond)}
			r.sources[shape.Rules].holdDocument(t, doc, tc.status)
			if tc.err != nil {
				r.sources[shape.Rules].fail(tc.err)
			}
			got := r.get(t, "/cms/rules/")
			list, err := httpsfv.UnmarshalList(got.Header.Values("Cache-Status"))
			if err != nil || len(list) != 1 {
				t.Fatalf("%q: %v", got.Header.Values("Cache-Status"), err)
			}
			item, ok := list[0].(httpsfv.Item)
			if !ok || item.Value != token("vitrine") {
				t.Fatalf("%q", got.Header.Values("Cache-Status"))
			}
			have := map[string]any{}
			for _, name := range item.Params.Names() {
				have[name], _ = item.Params.Get(name)
			}
			if fmt.Sprint(have) != fmt.Sprint(tc.want) {
				t.Errorf("%v, want %v", have, tc.want)
			}
		})
	}
}

func TestRFC9875CacheGroupsNameTheResourceInWhateverForm(t *testing.T) {
	r, _ := newRuleRig(t, Options{})
	for path, resource := range map[string]string{"/gvapp/": "catalogue", "/cms/rules/": "rules", bannersPath: "banners"} {
		for _, form := range []string{"", "?format=api", "?ordering=-id", "?ordering=title_en,-id&x=" + strconv.Itoa(len(path))} {
			for _, field := range []string{"Accept-Encoding: br", "If-None-Match: *", "Accept: application/json; indent=2"} {
				got := r.get(t, path+form, field)
				list, err := httpsfv.UnmarshalList(got.Header.Values("Cache-Groups"))
				testkit.Must(t, err)
				var groups []string
				for _, member := range list {
					item, ok := member.(httpsfv.Item)
					text, isString := item.Value.(string) // section 2: strings, and their parameters mean nothing
					if !ok || !isString || len(item.Params.Names()) != 0 {
						t.Fatalf("%v", got.Header)
					}
					groups = append(groups, text)
				}
				if !slices.Equal(groups, []string{resource, "vitrine"}) { // section 2.1: 32 groups of 32 characters at the least
					t.Errorf("%s%s, %s: %v", path, form, field, groups)
				}
			}
		}
	}
	for _, request := range []string{"GET /nope HTTP/1.1\nHost: x", "POST /gvapp/ HTTP/1.1\nHost: x", "OPTIONS /gvapp/ HTTP/1.1\nHost: x"} {
		if got := r.send(t, request); got.Header.Values("Cache-Groups") != nil || got.Header.Values("Cache-Group-Invalidation") != nil {
			t.Errorf("%s: %v", request, got.Header)
		}
	}
}
