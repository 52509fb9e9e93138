package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"vitrine/cache"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// decode undoes a content coding.
func decode(t *testing.T, coding string, body []byte) []byte {
	t.Helper()
	var r io.Reader
	switch coding {
	case "":
		return body
	case "br":
		r = brotli.NewReader(bytes.NewReader(body))
	case "gzip":
		return gunzip(t, body)
	case "zstd":
		// The window that every browser has room for, RFC 9659.
		z, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderMaxWindow(8<<20))
		testkit.Must(t, err)
		defer z.Close()
		r = z
	default:
		t.Fatalf("coding %q", coding)
	}
	out, err := io.ReadAll(r)
	testkit.Must(t, err)
	return out
}

func TestEachRepresentationHasItsOwnStrongTag(t *testing.T) {
	r := newRig(t, Options{})
	r.holdRecorded(t, shape.Banners, "edge-singlebanner")
	plain := r.get(t, "/gvapp/singlebanner")
	tags := map[string]string{}
	for _, target := range []string{"", "?ordering=-id", "?ordering=title_en", "?format=api", "?format=api&ordering=-id"} {
		identity := r.get(t, "/gvapp/singlebanner"+target)
		for _, accept := range []string{"", "br", "gzip", "zstd"} {
			got := r.get(t, "/gvapp/singlebanner"+target, "Accept-Encoding: "+accept)
			if got.Header.Get("Content-Encoding") != accept || got.Header.Get("Vary") != "Accept, Accept-Encoding" {
				t.Fatalf("%s %s: %v", target, accept, got.Header)
			}
			if !bytes.Equal(decode(t, accept, got.body), identity.body) {
				t.Errorf("%s %s: another document", target, accept)
			}
			if accept != "" && 5*len(got.body) > len(plain.body) {
				t.Errorf("%s %s: %d bytes of %d", target, accept, len(got.body), len(plain.body))
			}
			tag := got.Header.Get("ETag")
			if tag != cache.ETag(got.body) {
				t.Errorf("%s %s: tag %s is not of these bytes", target, accept, tag)
			}
			if other, ok := tags[tag]; ok {
				t.Errorf("%s %s has the tag of %s", target, accept, other)
			}
			tags[tag] = target + " " + accept
			if again := r.get(t, "/gvapp/singlebanner"+target, "Accept-Encoding: "+accept, "If-None-Match: "+tag); again.StatusCode != http.StatusNotModified ||
				again.Header.Get("ETag") != tag || again.Header.Get("Vary") != got.Header.Get("Vary") {
				t.Errorf("%s %s: %d %v for its own tag", target, accept, again.StatusCode, again.Header)
			}
			if again := r.get(t, "/gvapp/singlebanner"+target, "If-None-Match: "+tag); accept != "" && again.StatusCode != http.StatusOK {
				t.Errorf("%s: the tag of %s confirms another representation", target, accept)
			}
		}
	}
}

// ruleSetTitled is a document of one rule set.
func ruleSetTitled(t *testing.T, title string) []byte {
	t.Helper()
	d, err := shape.Normalize(shape.Rules, []byte(`[{"id":1,"title":"`+title+`"}]`))
	testkit.Must(t, err)
	return d.Body
}

func TestSmallBodiesHaveNoVariants(t *testing.T) {
	r := newRig(t, Options{})
	least := len(ruleSetTitled(t, ""))
	for _, size := range []int{1399, 1400} {
		r.sources[shape.Rules].hold(t, ruleSetTitled(t, strings.Repeat("x", size-least)))
		got := r.get(t, "/cms/rules/", "Accept-Encoding: br, gzip, zstd", "X: identity;q=0")
		vary, coding := "Accept, Accept-Encoding", "br"
		if size < 1400 {
			vary, coding = "Accept", ""
		}
		if got.Header.Get("Vary") != vary || got.Header.Get("Content-Encoding") != coding {
			t.Errorf("%d bytes: %v", size, got.Header)
		}
	}
}

func TestHeadHasTheFieldsOfGet(t *testing.T) {
	r := newRig(t, Options{})
	r.holdRecorded(t, shape.Banners, "singlebanner-get")
	for _, fields := range []string{"", "\nAccept-Encoding: br", "\nAccept: application/json; indent=2", "\nAccept: image/png", "\nIf-None-Match: *"} {
		get := r.send(t, "GET /gvapp/singlebanner?ordering=-id HTTP/1.1\nHost: x\nX-Request-Id: 1"+fields)
		head := r.send(t, "HEAD /gvapp/singlebanner?ordering=-id HTTP/1.1\nHost: x\nX-Request-Id: 1"+fields)
		get.Header.Del("Date")
		head.Header.Del("Date")
		if head.StatusCode != get.StatusCode || len(head.body) != 0 || head.ContentLength != get.ContentLength && get.StatusCode != http.StatusNotModified ||
			strings.ReplaceAll(fmt.Sprint(head.Header), "ttl=59", "ttl=60") != strings.ReplaceAll(fmt.Sprint(get.Header), "ttl=59", "ttl=60") {
			t.Errorf("%q: HEAD %d %d %v\nGET %d %d %v", fields, head.StatusCode, head.ContentLength, head.Header, get.StatusCode, get.ContentLength, get.Header)
		}
	}
}

func termsOf(t *testing.T, o Options) *terms {
	t.Helper()
	made, err := newTerms(&o)
	testkit.Must(t, err)
	return made
}

func TestWhatDownstreamCachesAreTold(t *testing.T) {
	fetched := time.Date(2026, time.November, 21, 12, 0, 0, 500e6, time.UTC)
	doc := &cache.Document{FetchedAt: fetched, ChangedAt: fetched.Add(-24 * time.Hour), FreshUntil: fetched.Add(time.Minute)}
	hit, forwarded := cache.Status{}, cache.Status{Fwd: cache.FwdMiss, FwdStatus: 200, Stored: true}
	told := func(maxAge, cdn time.Duration) *terms {
		return termsOf(t, Options{
			MaxAge: maxAge, StaleWhileRevalidate: 5 * time.Minute, StaleIfError: 24 * time.Hour,
			CDNMaxAge: cdn, CDNStaleWhileRevalidate: 5 * time.Minute,
		})
	}
	usual, keeping, long, purged := told(0, 0), told(10*time.Second, 10*time.Second), told(time.Hour, time.Hour), told(0, 30*time.Second)
	edge := termsOf(t, Options{MaxAge: time.Hour, CDNMaxAge: time.Hour, CDNTold: true, StaleIfError: 24 * time.Hour})
	const fails = ", stale-if-error=86400"
	for _, tc := range []struct {
		name                          string
		terms                         *terms
		after                         time.Duration
		status                        cache.Status
		age                           string
		cacheControl, cdn, status9211 string
	}{
		{"fresh", usual, 18 * time.Second, hit, "18",
			"public, max-age=0" + fails, "public, max-age=0, stale-while-revalidate=42" + fails, "vitrine; hit; ttl=42"},
		{"parts of a second favour nobody", usual, 18900 * time.Millisecond, hit, "18",
			"public, max-age=0" + fails, "public, max-age=0, stale-while-revalidate=41" + fails, "vitrine; hit; ttl=41"},
		{"nothing offered", termsOf(t, Options{}), 0, hit, "0",
			"public, max-age=0", "public, max-age=0", "vitrine; hit; ttl=60"},
		{"kept for longer, of a certain age", keeping, 18 * time.Second, hit, "18",
			"public, max-age=28, stale-while-revalidate=32" + fails, "public, max-age=28, stale-while-revalidate=32" + fails, "vitrine; hit; ttl=42"},
		{"never past its freshness here", keeping, 53 * time.Second, hit, "53",
			"public, max-age=60" + fails, "public, max-age=60" + fails, "vitrine; hit; ttl=7"},
		{"not however long it may be", long, 18 * time.Second, hit, "18",
			"public, max-age=60" + fails, "public, max-age=60" + fails, "vitrine; hit; ttl=42"},
		{"by a cache that can be purged, but by no browser", purged, 18 * time.Second, hit, "18",
			"public, max-age=0" + fails + ", s-maxage=48", "public, max-age=48, stale-while-revalidate=12" + fails, "vitrine; hit; ttl=42"},
		{"by a cache that is told of changes, past its freshness", edge, 18 * time.Second, hit, "18",
			"public, max-age=60" + fails + ", s-maxage=3618", "public, max-age=3618" + fails, "vitrine; hit; ttl=42"},
		{"but not a stale one", edge, 75 * time.Second, cache.Status{Stale: true, Detail: cache.DetailRevalidate}, "75",
			"public, max-age=0, stale-if-error=86385", "public, max-age=0, stale-if-error=86385", "vitrine; hit; ttl=-15; detail=stale-while-revalidate"},
		{"stale", keeping, 75 * time.Second, cache.Status{Stale: true, Detail: cache.DetailRevalidate}, "75",
			"public, max-age=0, stale-if-error=86385", "public, max-age=0, stale-if-error=86385", "vitrine; hit; ttl=-15; detail=stale-while-revalidate"},
		{"at the end of its stale window", keeping, 24*time.Hour + 59*time.Second, cache.Status{Stale: true, Detail: cache.DetailIfError}, "86459",
			"public, max-age=0, stale-if-error=1", "public, max-age=0, stale-if-error=1", "vitrine; hit; ttl=-86399; detail=stale-if-error"},
		{"beyond it", keeping, 24*time.Hour + 60*time.Second, cache.Status{Stale: true, Detail: cache.DetailIfError}, "86460",
			"public, max-age=0", "public, max-age=0", "vitrine; hit; ttl=-86400; detail=stale-if-error"},
		{"fetched for this request", usual, 0, forwarded, "0",
			"public, max-age=0" + fails, "public, max-age=0, stale-while-revalidate=60" + fails, "vitrine; fwd=miss; fwd-status=200; stored"},
		{"a clock that went back", usual, -5 * time.Second, hit, "0",
			"public, max-age=0" + fails, "public, max-age=0, stale-while-revalidate=65" + fails, "vitrine; hit; ttl=65"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMoment(tc.terms, doc, &tc.status, fetched.Add(tc.after))
			for name, want := range map[string]string{
				"Last-Modified": "Fri, 20 Nov 2026 12:00:00 GMT", "Age": tc.age,
				"Cache-Control": tc.cacheControl, "CDN-Cache-Control": tc.cdn, "Cache-Status": tc.status9211,
			} {
				if got := fieldOf(m, name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
		})
	}
}

// fieldOf is a field of the answers in a moment.
func fieldOf(m *moment, name string) string {
	for i := 0; i < len(m.changing); i += 2 {
		if string(m.changing[i]) == name {
			return string(m.changing[i+1])
		}
	}
	return ""
}

func TestAMomentIsSharedWithinItsSecond(t *testing.T) {
	at := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	doc := &cache.Document{FetchedAt: at, ChangedAt: at, FreshUntil: at.Add(time.Minute + 999*time.Millisecond)}
	hit := cache.Status{}
	var p route
	pol := termsOf(t, Options{})
	first := p.at(pol, doc, &hit, at)
	if p.at(pol, doc, &hit, at.Add(999*time.Millisecond)) != first {
		t.Error("rendered again within the second")
	}
	confirmed := *doc
	for name, other := range map[string]*moment{
		"the next second":  p.at(pol, doc, &hit, at.Add(time.Second)),
		"another status":   p.at(pol, doc, &cache.Status{Stale: true}, at),
		"another document": p.at(pol, &confirmed, &hit, at),
	} {
		if other == first {
			t.Errorf("%s is told what was true before", name)
		}
	}
}

func TestWithinASecondNobodyIsToldOfMoreFreshnessThanIsLeft(t *testing.T) {
	at := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	doc := &cache.Document{FetchedAt: at.Add(-5 * time.Second), ChangedAt: at, FreshUntil: at.Add(10*time.Second + 500*time.Millisecond)}
	pol := termsOf(t, Options{MaxAge: time.Hour, CDNMaxAge: time.Hour})
	hit := cache.Status{}
	var p route
	for _, want := range []struct {
		after   time.Duration
		control string
	}{
		{0, "public, max-age=15"},
		{500 * time.Millisecond, "public, max-age=15"},
		{501 * time.Millisecond, "public, max-age=14"},
		{999 * time.Millisecond, "public, max-age=14"},
		{1500 * time.Millisecond, "public, max-age=15"}, // of which one more is past
	} {
		if got := fieldOf(p.at(pol, doc, &hit, at.Add(want.after)), "Cache-Control"); got != want.control {
			t.Errorf("after %v: %q, want %s", want.after, got, want.control)
		}
	}
}

// Redis's clock, by which a document changed, may be ahead.
func TestLastModifiedIsNeverAfterDate(t *testing.T) {
	r := newRig(t, Options{})
	now := time.Now()
	r.sources[shape.Rules].holdDocument(t, &cache.Document{
		Body: []byte("[]"), ETag: cache.ETag([]byte("[]")), FetchedAt: now, ChangedAt: now.Add(time.Hour), FreshUntil: now.Add(time.Minute),
	}, cache.Status{Detail: cache.DetailMemory})
	h := r.get(t, "/cms/rules/").Header
	date, err := http.ParseTime(h.Get("Date"))
	testkit.Must(t, err)
	if modified, err := http.ParseTime(h.Get("Last-Modified")); err != nil || modified.After(date) {
		t.Errorf("%v is after %v: %v", modified, date, err)
	}
}

func TestTagsAreSentInTheFieldsThatTargetsRead(t *testing.T) {
	for _, tags := range [][]string{{"Cache-Tag", "Surrogate-Key"}, nil} {
		r := newRig(t, Options{TagHeaders: tags})
		for _, fields := range []string{"X: y", "If-None-Match: *"} {
			got := r.get(t, "/gvapp/singlebanner", fields).Header
			want := map[string]string{"Cache-Groups": `"banners", "vitrine"`}
			if tags != nil {
				want["Cache-Tag"], want["Surrogate-Key"] = "banners,vitrine", "banners vitrine"
			}
			for _, name := range []string{"Cache-Groups", "Cache-Tag", "Surrogate-Key"} {
				if got.Get(name) != want[name] {
					t.Errorf("%v, %s: %s: %q, want %q", tags, fields, name, got.Get(name), want[name])
				}
			}
		}
	}
}
