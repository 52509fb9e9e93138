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
	"vitrine/proxy/verdict"
	"vitrine/upstream/guard"
	"vitrine/upstream/sample"
	"vitrine/upstream/sanitize"
	"vitrine/upstream/shape"
)

// hostile is text that must not become a part of a page.
const hostile = `<img src=x onerror=alert(1)>"'`

// stocked are the options of a server that has the sample, and knows of everything that can be
// said. Its snapshot is changed by change.
func stocked(t *testing.T, change func(*verdict.Snapshot)) Options {
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
	meter := metrics.New("1.2.3", func() verdict.Snapshot {
		s := verdict.Snapshot{
			CMS: verdict.CMS{URL: "https://cms.example/" + hostile, Source: "s"}, Redis: verdict.Redis{Address: "redis:6379", Prefix: "vitrine:", Up: true, Answering: true},
			Documents: map[shape.Resource]verdict.Document{},
		}
		for r, body := range documents {
			s.Documents[r] = verdict.Document{
				LastFetch:  &verdict.Fetch{At: now, Error: hostile, Cause: hostile, Attempts: 3},
				HeldBack:   &guard.Hold{Since: now, Until: &now, Reason: "no banners, 9 before" + hostile, Command: "vitrine accept banners" + hostile},
				Suspicions: guard.Findings{{Kind: guard.Unpaged, List: "rules", Items: 8, Shown: hostile}},
				Held: &verdict.Held{
					ETag: `"a"`, Bytes: len(body), Items: items[r], Age: 20, Left: 40,
					Restored:  &verdict.Restored{Until: now.Add(time.Hour), By: hostile},
					FetchedAt: now.Add(-20 * time.Second), ChangedAt: now.Add(-26 * time.Hour), FreshUntil: now.Add(40 * time.Second), ServableUntil: now.Add(time.Hour),
				},
			}
		}
		change(&s)
		return s
	})
	meter.Fetched("rules", "failed", time.Millisecond, &shape.RefusedError{Path: "rules[0].id", Want: "an integer", Got: hostile})
	meter.Note(metrics.KindPurge, "banners", "")
	meter.Note(metrics.KindPurge, "rules", hostile)
	meter.Note(metrics.KindChange, "banners", "1 banner removed ("+hostile+")")
	meter.Of("").Observe(metrics.Answer{Cache: metrics.Hit, Code: 200, Took: 4 * time.Microsecond})
	return Options{
		Meter:    meter,
		Document: func(r shape.Resource) []byte { return documents[r] },
		Runbook:  "# When\n\n## The CMS's token <b>\n\nType:\n",
		Status: Status{
			Name: hostile, Version: hostile, Started: now.Add(-time.Hour), Public: "javascript:alert(1)",
			Commands: []Command{{Does: "Purge the banners", Command: "redis-cli DEL 'vitrine:" + hostile + "'"}},
		},
	}
}

// asItIs changes nothing.
func asItIs(*verdict.Snapshot) {}

// fetch returns the answer to a GET.
func fetch(s *Server, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody))
	return w
}

var inline = regexp.MustCompile(`(?i)<script(?: [^>]*)?>[^<]|<style|\sstyle=|\son[a-z]+="|href="(javascript|data):|<img`)

func TestPagesHoldNothingInlineAndEscapeEverything(t *testing.T) {
	s := newServer(t, stocked(t, asItIs))
	resp := fetch(s, "/")
	body := resp.Body.String()
	if resp.Code != 200 || resp.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v %s", resp.Code, resp.Header(), body)
	}
	if m := inline.FindString(body); m != "" {
		t.Errorf("the page holds %q", m)
	}
}

func TestNoAnswerIsOfUseToAPageOfAnotherOrigin(t *testing.T) {
	o := stocked(t, asItIs)
	o.Profiles = true
	s := newServer(t, o)
	for _, path := range []string{"/", "/livez", "/readyz", "/api/status", "/documents/rules", "/assets/icon.svg", "/favicon.ico", "/metrics", "/openapi.json", "/debug/pprof/", "/debug/pprof/cmdline", "/nothing"} {
		resp := fetch(s, path)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'", "X-Content-Type-Options": "nosniff",
			"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := resp.Header().Get(name); !strings.HasPrefix(got, want) || strings.Contains(got, "unsafe") {
				t.Errorf("%s: %d, %s: %q", path, resp.Code, name, got)
			}
		}
	}
}

func TestThePageShowsTheVerdictAndWhatItIsAbout(t *testing.T) {
	s := newServer(t, stocked(t, asItIs))
	body := fetch(s, "/").Body.String()
	for _, want := range []string{
		"Visitors are not affected: no error in 1 response. Copies last until ", "rules[0].id: want an integer", "Banners purged.", "Banners changed:",
		"Banners: the CMS&#39;s document is held back (no banners, 9 before", "Editors: visitors get the copy from before, until ", `href="/runbook#a-document-is-held-back"`,
		"<code tabindex=\"0\">vitrine accept banners</code>", "Content warning for the rules: rules: 8 items taken for all", "restored an earlier version, until ",
		"<code tabindex=\"0\">vitrine restore banners latest</code>", "<code tabindex=\"0\">vitrine purge --soft rules</code>", "Rules purged by <code>",
		"34 items", "20 seconds old", "1 day ago", "3 attempts",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	body = fetch(s, "/api/status").Body.String()
	for _, want := range []string{`"sentence": "Visitors are not affected`, `"items": 34`, `"kind": "change"`, `"by": "`, `"kind": "refusal"`, `"reason": "rules[0].id: want`, `"level": "good"`, `"history": []`} {
		if !strings.Contains(body, want) {
			t.Errorf("the status does not say %s", want)
		}
	}
	resp := fetch(s, "/metrics")
	body = resp.Body.String()
	if resp.Code != 200 || !strings.Contains(body, `vitrine_refused_documents_total{resource="rules"} 1`) || !strings.Contains(body, "go_goroutines") {
		t.Errorf("%d %s", resp.Code, body)
	}
	if body := fetch(s, "/runbook").Body.String(); !strings.Contains(body, `<h2 id="the-cmss-token-b">The CMS&#39;s token &lt;b&gt;</h2><pre class="runbook">Type:</pre>`) {
		t.Error(body)
	}
}

// A fetch that failed here is no alarm once another replica has fetched, though the breaker is open.
func TestThePageTellsWhatAnotherReplicaHasFetchedSince(t *testing.T) {
	body := fetch(newServer(t, stocked(t, func(s *verdict.Snapshot) {
		s.CMS.BreakerOpen = true
		for _, d := range s.Documents {
			d.LastFetch.At, d.Held.Restored = d.Held.FetchedAt.Add(-time.Second), nil
		}
	})), "/").Body.String()
	if !strings.Contains(body, "; another replica has fetched since") || strings.Contains(body, `<div class="bad">`) || strings.Contains(body, "The CMS keeps failing") {
		t.Error(body)
	}
}

// A terminal obeys some of these, and a reader is misled by others.
func TestControlCharactersOfTheCMSAreShownAndNotSent(t *testing.T) {
	const hidden = "\x1b[2J\u009b1m\u202egood\u2066\x00\x7f"
	o := stocked(t, func(s *verdict.Snapshot) {
		s.CMS.URL = "https://cms.example/" + hidden
		rules := s.Documents[shape.Rules]
		rules.LastFetch = &verdict.Fetch{Error: "next: " + hidden, At: time.Now()}
		s.Documents[shape.Rules] = rules
	})
	o.Meter.Fetched("rules", "failed", time.Millisecond, &shape.RefusedError{Path: "rules[0].id", Want: "an integer", Got: hidden})
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
		if sanitize.JSON(body) != body {
			t.Errorf("%s sends %q", path, body)
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
		"/": "no copy is cached", "/documents/rules": "Nothing is cached now.", "/documents/pictures": "Not found",
		"/assets/overview.html": "Not found", "/assets/..%2fpage.go": "Not found", "/assets/nope.css": "Not found",
	} {
		if body := fetch(s, path).Body.String(); !strings.Contains(body, want) {
			t.Errorf("%s does not say %q: %s", path, want, body)
		}
	}
}

func TestTheAssetsAreSmallAndAskedForOnce(t *testing.T) {
	s := newServer(t, stocked(t, asItIs))
	all := fetch(s, "/").Body.Len()
	for _, name := range []string{"style.css", "script.js", "icon.svg"} {
		resp := fetch(s, "/assets/"+name)
		all += resp.Body.Len()
		r := httptest.NewRequest(http.MethodGet, "http://localhost/assets/"+name, http.NoBody)
		r.Header.Set("If-None-Match", resp.Header().Get("ETag"))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if resp.Code != 200 || resp.Header().Get("Content-Type") == "" || w.Code != http.StatusNotModified {
			t.Errorf("%s: %d, and again %d", name, resp.Code, w.Code)
		}
	}
	if all > 60_000 {
		t.Errorf("%d bytes in all", all)
	}
}

func TestNumbersAreRoundedHonestly(t *testing.T) {
	for ratio, want := range map[float64]string{1: "100%", 0.99999: "99.9%", 0.5: "50.0%", 0.00001: "0.1%", 0: "0.0%"} {
		if got := percent(ratio); got != want {
			t.Errorf("percent(%v) = %q, want %q", ratio, got, want)
		}
	}
	for most, want := range map[float64]float64{0: 1, 0.31: 0.4, 3.5: 4, 41: 50, 1000: 1000} {
		if got := ceiling(most); got < want*0.999 || got > want*1.001 {
			t.Errorf("ceiling(%v) = %v, want %v", most, got, want)
		}
	}
}
