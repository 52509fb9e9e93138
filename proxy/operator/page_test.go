package operator

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/proxy/operator/metrics"
	"vitrine/upstream"
	"vitrine/upstream/sample"
	"vitrine/upstream/shape"
)

// hostile is text that must not become a part of a page.
const hostile = `<img src=x onerror=alert(1)>"'`

// stocked are the options of a server that holds the sample, and knows of everything that can be
// told.
func stocked(t *testing.T) Options {
	t.Helper()
	documents, items := map[shape.Resource][]byte{}, map[shape.Resource]int{}
	now := time.Now()
	for _, r := range shape.Resources() {
		raw, err := sample.FS.ReadFile(string(r) + ".json")
		testkit.Must(t, err)
		doc, err := shape.Normalize(r, raw)
		testkit.Must(t, err)
		documents[r], items[r] = doc.Body, doc.Items
	}
	meter := metrics.New("1.2.3", func() metrics.State { return metrics.State{RedisUp: true, Tracking: true} })
	meter.Fetched("rules", "failed", time.Millisecond, &shape.RefusedError{Path: "rules[0].id", Want: "an integer", Got: hostile})
	meter.Purged("banners", "hard")
	meter.Changed("banners", "1 banner removed ("+hostile+")")
	meter.Of("").Observe(metrics.Answer{Cache: metrics.Hit, Code: 200, Took: 4 * time.Microsecond})
	return Options{
		Meter:    meter,
		Document: func(r shape.Resource) []byte { return documents[r] },
		Status: func() Status {
			st := Status{
				Version: hostile, Started: now.Add(-time.Hour), Public: "javascript:alert(1)",
				Upstream: Upstream{URL: "https://cms.example/" + hostile, Source: "s"}, Redis: Redis{Address: "redis:6379", Prefix: "vitrine:", Up: true, Listening: true},
				Resources: map[shape.Resource]Resource{},
				Replicas: Replicas{Known: true, List: []Replica{
					{Name: "here", Self: true, Report: Report{Source: "s", Started: now, ETags: map[shape.Resource]string{"rules": "a", "banners": "b"}}},
					{Name: hostile, Report: Report{Source: "s", Started: now, ETags: map[shape.Resource]string{"rules": "a", "banners": "other"}}},
					{Name: "starting", Report: Report{Source: "s", Started: now}},
				}},
				Commands: []Command{{Does: "Purge the banners", Command: "redis-cli DEL 'vitrine:" + hostile + "'"}},
			}
			for r, body := range documents {
				st.Resources[r] = Resource{LastFetch: &Fetch{At: now, Error: hostile, Attempts: 3}, Document: metrics.Document{
					HeldBack:   &metrics.HeldBack{Since: now, Until: &now, Reason: "no banners, 9 before" + hostile, Command: "redis-cli HSET vitrine:banners accept 1" + hostile},
					Suspicions: []upstream.Suspicion{{Kind: upstream.Unpaged, Path: "rules", Count: 8, Shown: hostile}},
					Held: &metrics.Held{
						ETag: `"a"`, Bytes: len(body), Items: items[r], Age: 20, Left: 40,
						Pinned:    &metrics.Pin{Until: now.Add(time.Hour), By: hostile},
						FetchedAt: now.Add(-20 * time.Second), ChangedAt: now.Add(-26 * time.Hour), FreshUntil: now.Add(40 * time.Second),
					},
				}}
			}
			return st
		},
	}
}

// fetch returns the answer to a GET.
func fetch(s *Server, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody))
	return w
}

var inline = regexp.MustCompile(`(?i)<script(?: [^>]*)?>[^<]|<style|\sstyle=|\son[a-z]+="|href="(javascript|data):|<img`)

func TestPagesHoldNothingInlineAndEscapeEverything(t *testing.T) {
	s := newServer(t, stocked(t))
	resp := fetch(s, "/")
	body := resp.Body.String()
	if resp.Code != 200 {
		t.Fatalf("%d %s", resp.Code, body)
	}
	if m := inline.FindString(body); m != "" {
		t.Errorf("the page holds %q", m)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'", "X-Content-Type-Options": "nosniff",
		"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
	} {
		if got := resp.Header().Get(name); !strings.HasPrefix(got, want) || strings.Contains(got, "unsafe") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestThePageTellsRefusalsDisagreementAndFailures(t *testing.T) {
	s := newServer(t, stocked(t))
	body := fetch(s, "/").Body.String()
	for _, want := range []string{
		"rules[0].id: want an integer", "Banners purged.", "Banners changed:", "Banners: the CMS&#39;s document is held back (no banners, 9 before", "To accept it: redis-cli HSET vitrine:banners accept 1", "A newer document is held back: ", "Look at the rules: rules: 8 items taken for all", "Banners: an earlier version is pinned by ", "nothing is fetched until then.", "something else", "The replicas do not hold the same content.", "To end that: vitrine restore banners latest", "now, until ", "34 items", "20 s old", "1 d 2 h ago", "3 attempts",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	body = fetch(s, "/api/status").Body.String()
	for _, want := range []string{`"items": 34`, `"kind": "change"`, `"by": "`, `"agree": false`, `"kind": "refusal"`, `"reason": "rules[0].id: want`, `"level": "good"`, `"at": []`} {
		if !strings.Contains(body, want) {
			t.Errorf("the status does not say %s", want)
		}
	}
	resp := fetch(s, "/metrics")
	body = resp.Body.String()
	if resp.Code != 200 || !strings.Contains(body, `vitrine_refused_documents_total{resource="rules"} 1`) || !strings.Contains(body, "go_goroutines") {
		t.Errorf("%d %s", resp.Code, body)
	}
}

// A fetch that failed here is no alarm once another replica has fetched, though the breaker is open.
func TestThePageTellsWhatAnotherReplicaHasFetchedSince(t *testing.T) {
	o := stocked(t)
	status := o.Status
	o.Status = func() Status {
		st := status()
		st.Upstream.BreakerOpen = true
		for r, resource := range st.Resources {
			resource.LastFetch.At, resource.Held.Pinned = resource.Held.FetchedAt.Add(-time.Second), nil
			st.Resources[r] = resource
		}
		return st
	}
	body := fetch(newServer(t, o), "/").Body.String()
	if !strings.Contains(body, "; another replica has fetched since") || strings.Contains(body, `<div class="bad">`) || strings.Contains(body, "The CMS keeps failing") {
		t.Error(body)
	}
}

// TestAnIdleSiteIsCalm has copies past their freshness that nobody requests, in a site without
// trouble and in one whose CMS fails.
func TestAnIdleSiteIsCalm(t *testing.T) {
	for _, failing := range []bool{false, true} {
		o := stocked(t)
		status := o.Status
		o.Status = func() Status {
			st := status()
			st.Replicas.List = nil
			for r, resource := range st.Resources {
				resource.Failing, resource.LastFetch, resource.HeldBack, resource.Suspicions = failing, nil, nil, nil
				resource.Held.Stale, resource.Held.Left, resource.Held.FreshUntil = true, -3600, time.Now().Add(-time.Hour)
				if resource.Held.FetchedAt = resource.Held.FreshUntil.Add(-time.Minute); r == shape.Rules {
					resource.Held = nil
				}
				st.Resources[r] = resource
			}
			return st
		}
		body := fetch(newServer(t, o), "/").Body.String()
		calm := strings.Contains(body, `class="card idle"`) && strings.Contains(body, "not requested lately") && !strings.Contains(body, `<p class="warn">`)
		alarmed := strings.Contains(body, `class="card stale failing"`) && strings.Contains(body, `<p class="bad">`)
		if calm == failing || alarmed != failing || strings.Contains(body, "retrying") {
			t.Errorf("failing %v: %s", failing, body)
		}
	}
}

func TestNothingIsIdleThatIsRefreshedWithoutRequests(t *testing.T) {
	for refresh, want := range map[string]string{"on-request": StateIdle, "always": StateStale} {
		r := Resource{Refresh: refresh, Document: metrics.Document{Held: &metrics.Held{Stale: true}}}
		if got := r.state(); got != want {
			t.Errorf("%s: %s, want %s", refresh, got, want)
		}
	}
}

// A terminal obeys some of these, and a reader is misled by others.
func TestControlCharactersOfTheCMSAreShownAndNotSent(t *testing.T) {
	o := stocked(t)
	const hidden = "\x1b[2J\u009b1m\u202egood\u2066\x00\x7f"
	o.Meter.Fetched("rules", "failed", time.Millisecond, &shape.RefusedError{Path: "rules[0].id", Want: "an integer", Got: hidden})
	status := o.Status
	o.Status = func() Status {
		st := status()
		st.Upstream.URL = "https://cms.example/" + hidden
		rules := st.Resources[shape.Rules]
		rules.LastFetch = &Fetch{Error: "next: " + hidden, At: time.Now()}
		st.Resources[shape.Rules] = rules
		return st
	}
	documents := o.Document
	o.Document = func(r shape.Resource) []byte {
		if r == shape.Rules {
			return []byte(`[{"id":1,"title":"\u001b[2J` + "\u009b1m\u202egood" + `"}]`)
		}
		return documents(r)
	}
	s := newServer(t, o)
	for _, path := range []string{"/", "/api/status", "/documents/rules"} {
		body := fetch(s, path).Body.String()
		if i := strings.IndexFunc(body, invisible); i >= 0 {
			t.Errorf("%s sends %q", path, body[i:min(len(body), i+20)])
		}
		if !strings.Contains(body, `\u001b[2J`) {
			t.Errorf("%s does not show what was there", path)
		}
	}
	var st Status
	if err := json.Unmarshal(fetch(s, "/api/status").Body.Bytes(), &st); err != nil || st.Resources[shape.Rules].LastFetch.Error != "next: "+hidden {
		t.Errorf("the status as JSON does not keep the text: %q, %v", st.Resources[shape.Rules].LastFetch.Error, err)
	}
}

func TestAPageThatKnowsNothingSaysSo(t *testing.T) {
	s := newServer(t, Options{})
	for path, want := range map[string]string{
		"/": "nothing is held", "/documents/rules": "Nothing is held now.", "/documents/pictures": "Not found",
		"/assets/overview.html": "Not found", "/assets/..%2fpage.go": "Not found", "/assets/nope.css": "Not found",
	} {
		if body := fetch(s, path).Body.String(); !strings.Contains(body, want) {
			t.Errorf("%s does not say %q: %s", path, want, body)
		}
	}
}

func TestTheAssetsAreSmallAndAskedForOnce(t *testing.T) {
	s := newServer(t, stocked(t))
	all := fetch(s, "/").Body.Len()
	for _, name := range []string{"style.css", "script.js", "icon.svg"} {
		resp := fetch(s, "/assets/"+name)
		all += resp.Body.Len()
		r := httptest.NewRequest(http.MethodGet, "http://localhost/assets/"+name, http.NoBody)
		r.Header.Set("If-None-Match", resp.Header().Get("ETag"))
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, r)
		if resp.Code != 200 || resp.Header().Get("Content-Type") == "" || w.Code != http.StatusNotModified {
			t.Errorf("%s: %d, and again %d", name, resp.Code, w.Code)
		}
	}
	if all > 60_000 {
		t.Errorf("%d bytes in all", all)
	}
}

func TestTimesAndNumbersAreWrittenAsAPersonSaysThem(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 999 * time.Millisecond: "0 s", 42 * time.Second: "42 s", 61 * time.Second: "1 min 1 s", time.Hour: "1 h",
		23*time.Hour + 59*time.Minute: "23 h", 26 * time.Hour: "1 d 2 h", -time.Minute: "1 min",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
	for ratio, want := range map[float64]string{1: "100%", 0.99999: "99.9%", 0.5: "50.0%", 0.00001: "0.1%", 0: "0.0%"} {
		if got := percent(ratio); got != want {
			t.Errorf("percent(%v) = %q, want %q", ratio, got, want)
		}
	}
	for ms, want := range map[float64]string{0.0042: "4.2 µs", 12: "12 ms", 2500: "2.5 s"} {
		if got := milliseconds(ms); got != want {
			t.Errorf("milliseconds(%v) = %q, want %q", ms, got, want)
		}
	}
	for most, want := range map[float64]float64{0: 1, 0.3: 0.4, 3: 4, 41: 50, 1000: 1000} {
		if got := ceiling([]*float64{&most}); got < want*0.999 || got > want*1.001 {
			t.Errorf("ceiling(%v) = %v, want %v", most, got, want)
		}
	}
}
