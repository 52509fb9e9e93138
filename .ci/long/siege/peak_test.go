package siege

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// styles are the ways of mapping, each with the envelope of its CMS.
var styles = []struct{ name, preset, envelope, program string }{
	{"drf", "drf", "[%s]", ""},
	{"strapi4", "strapi4", `{"data":[%s],"meta":{"pagination":{"page":1,"pageSize":100000,"pageCount":1,"total":%d}}}`, ""},
	{"strapi5", "strapi5", `{"data":[%s],"meta":{"pagination":{"page":1,"pageSize":100000,"pageCount":1,"total":%d}}}`, ""},
	{"directus", "directus", `{"data":[%s],"meta":{"filter_count":%d}}`, ""},
	{"wordpress", "wordpress", "[%s]", ""},
	{"programs", "custom", `{"data":[%s]}`, "{parts: [{path: banners, items: .data, map: .title_nl = .redirect_link_en}]}"},
}

// TestAFetchTakesAtMostSixTimesWhatItReceivesOrWrites runs the command in front of a CMS, one for
// each way of mapping and each document of 24 to 30 MB, and has it fetch that. What is measured is
// the anonymous resident memory of the process, every two milliseconds: the most during the fetch
// less what it was before, the garbage collector's share included. Programs have 64 MiB besides,
// and up to 64 MiB more until that is noticed: they take a gigabyte a second, and the watcher
// shares two cores with them.
func TestAFetchTakesAtMostSixTimesWhatItReceivesOrWrites(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector's memory is not vitrine's: run it without -race")
	}
	deep := strings.Repeat(`{"a":`, 55) + "1" + strings.Repeat("}", 55)
	var honest strings.Builder
	for i := range 18_000 {
		honest.WriteString("," + bannerOf(i+1, strings.Repeat("A title as an editor writes it. ", 30)))
	}
	for what, document := range map[string]struct {
		items int
		text  string
	}{
		"nested":  {1, `{"id":1,"documentId":"a","x":[` + strings.Repeat(deep+",", 90_000) + `1]}`},
		"objects": {1, `{"id":1,"documentId":"a","x":[` + strings.Repeat("{},", 8_000_000) + `1]}`},
		"honest":  {18_000, honest.String()[1:]},
	} {
		for _, style := range styles {
			t.Run(style.name+" "+what, func(t *testing.T) {
				resources := "{}"
				if style.program != "" {
					resources = "{catalogue: {empty: true}, rules: {empty: true}, banners: " + style.program + "}"
				}
				var items, count atomic.Value
				set := func(text string, n int) { count.Store(strconv.Itoa(n)); items.Store(text) }
				set(`{"id":1,"documentId":"a"}`, 1)
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					total := count.Load().(string)
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("X-WP-Total", total)
					w.Header().Set("X-WP-TotalPages", "1")
					if !strings.Contains(r.URL.Path, "banner") {
						w.WriteHeader(http.StatusNotFound)
						return
					}
					_, _ = strings.NewReplacer("%d", total, "%s", items.Load().(string)).WriteString(w, style.envelope)
				}))
				defer server.Close()
				took, written, status := peak(t, fmt.Sprintf("upstream: {url: %q, preset: %s, timeout: 1m, retries: 0, resources: %s}\n", server.URL, style.preset, resources),
					func() { set(document.text, document.items) })
				t.Logf("%d MB received, %d MB written, status %d, %d MB more at most", len(document.text)/1e6, written/1e6, status, took/1e6)
				bound := 8<<20 + 6*max(len(document.text), written)
				if style.program != "" {
					bound += 128 << 20
				}
				if took > bound {
					t.Errorf("takes %d bytes, want at most %d", took, bound)
				}
				if what == "honest" && status != http.StatusOK {
					t.Errorf("status %d", status)
				}
			})
		}
	}
}

// peak runs the command with a configuration, has it fetch banners again after change, and returns
// by how much its memory grew, how long the document is that was written, and the status that
// visitors got.
func peak(t *testing.T, config string, change func()) (bytes, written, status int) {
	t.Helper()
	file := harness.File(t, "vitrine.yaml", config)
	redis, public := redistest.Start(t), harness.FreeAddress(t)
	var log testkit.Buffer
	vitrine := harness.Child{Log: &log, Args: []string{"serve", "--config", file}, Environ: []string{
		"VITRINE_LISTEN=" + public, "VITRINE_REDIS_URL=" + redis.URL(), "VITRINE_TTL=1h", "VITRINE_LOG_FORMAT=json",
	}}
	vitrine.Start(t)
	defer vitrine.Stop()
	url := "http://" + public + harness.Routes[shape.Banners]
	harness.WaitUntilWell(t, url)
	change()
	before, most := anonymous(vitrine.Pid()), watch(vitrine.Pid(), 2*time.Millisecond)
	testkit.Must(t, redis.Client().Del(t.Context(), "vitrine:banners").Err())
	fetched := func() bool {
		said := log.String()
		return strings.Contains(said, "rejected the CMS") || strings.Contains(said, "cannot fetch\",\"resource\":\"banners") ||
			redis.Client().HExists(t.Context(), "vitrine:banners", "body").Val()
	}
	testkit.Within(t, 2*time.Minute, "it is fetched", func() bool {
		var err error
		status, _, _, err = harness.Get(http.DefaultClient, url)
		testkit.Must(t, err)
		return fetched()
	})
	bytes = most() - before
	t.Log(log.String())
	body, _ := redis.Client().HGet(t.Context(), "vitrine:banners", "body").Bytes() // none, if it was refused
	return bytes, len(body), status
}

// watch looks at the memory of a process again and again, until what it returns is called, which
// returns the most that it was.
func watch(pid int, every time.Duration) (end func() (most int)) {
	done, most := make(chan struct{}), make(chan int)
	go func() {
		tick, seen := time.NewTicker(every), 0
		defer tick.Stop()
		for {
			select {
			case <-done:
				most <- seen
				return
			case <-tick.C:
				seen = max(seen, anonymous(pid))
			}
		}
	}()
	return func() int { close(done); return <-most }
}

// bannerOf is a banner with all fields, and one of a CMS's own.
func bannerOf(id int, title string) string {
	return fmt.Sprintf(`{"documentId":"d%d","id":%[1]d,"title_en":%q,"title_nl":"","title_fr":"","button_text_en":"","button_text_nl":"","button_text_fr":"",`+
		`"redirect_link_en":"/en/%[1]d","redirect_link_nl":"","redirect_link_fr":"","language_en":true,"language_nl":false,"language_fr":false,`+
		`"created_at":"2024-03-01T10:00:00.000000Z","updated_at":"2024-03-01T10:00:00.000000Z"}`, id, title)
}

// anonymous is the memory that belongs to a process alone, in bytes.
func anonymous(pid int) (bytes int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // ended
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	_, _ = fmt.Sscan(rest, &bytes)
	return bytes << 10
}
