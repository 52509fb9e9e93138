package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// reachTime is from a purge to the first visitor behind Varnish who sees the new content, with a
// CMS of cmsTime, on one host.
const (
	reachTime = 500 * time.Millisecond
	cmsTime   = 50 * time.Millisecond
)

// send sends a request with one field, and returns the status of the answer.
func send(t *testing.T, method, url, body, name, value string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	testkit.Must(t, err)
	r.Header.Set(name, value)
	response, err := client.Do(r)
	testkit.Must(t, err)
	defer response.Body.Close()
	return response.StatusCode
}

// An edge is vitrine with a Varnish in front, which keeps responses for an hour and is notified.
type edge struct {
	*vitrine
	t       *testing.T
	url     string // of the banners
	varnish *os.Process
}

func startEdge(t *testing.T, environ ...string) *edge {
	t.Helper()
	addr := harness.FreeAddress(t)
	e := &edge{t: t, vitrine: startVitrine(t, append(environ,
		"VITRINE_CONFIG="+harness.File(t, "vitrine.yaml", "notify: [{name: edge, preset: varnish, url: 'http://"+addr+"'}]\n"),
		"VITRINE_HTTP_CDN_MAX_AGE=1h", "VITRINE_STALE_IF_ERROR=1h",
	), varnishTool, gccTool)}
	url, varnish := startVarnishAt(t, e.vitrine, addr)
	e.url, e.varnish = url+routes[shape.Banners], varnish
	text := e.publish(1)
	e.Purge(string(shape.Banners)) // nothing is held then that this would have to be like
	testkit.Eventually(t, "the visitor sees the first", func() bool { return e.shows(text) })
	return e
}

// publish has the CMS give one banner, slowly, and returns by what it is known.
func (e *edge) publish(id int) (text string) {
	e.cms.Handle(shape.Banners, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-time.After(cmsTime)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `[{"id":%d}]`, id)
	}))
	return fmt.Sprintf(`"id":%d,`, id)
}

// shows reports whether a visitor of the banners sees a text.
func (e *edge) shows(text string) bool {
	r := get(e.t, e.url)
	return r.StatusCode == http.StatusOK && strings.Contains(string(r.body), text)
}

// TestAPurgeReachesTheVisitorBehindVarnish: the times are logged; the median has to be within the
// budget.
func TestAPurgeReachesTheVisitorBehindVarnish(t *testing.T) {
	const secret = "hunter2hunter2"
	v := startEdge(t, "VITRINE_HOOK_SECRET="+secret)
	hook := func() {
		if status := send(t, http.MethodPost, "http://"+v.Operator+"/hooks/content", "{}", "Authorization", "Bearer "+secret); status != http.StatusAccepted {
			t.Fatalf("the webhook answers %d", status)
		}
	}
	id := 2
	for name, purge := range map[string]func(){
		"redis-cli DEL": func() { v.Purge(string(shape.Banners)) },
		"a webhook":     hook,
	} {
		var took []time.Duration
		for range 5 * harness.Volume(t) {
			<-time.After(1500 * time.Millisecond) // the pauses of the webhook and of the target
			get(t, v.url)                         // which Varnish keeps for an hour
			text := v.publish(id)
			id++
			began := time.Now()
			purge()
			for !v.shows(text) { // without the growing pauses of Eventually
				if <-time.After(time.Millisecond); time.Since(began) > testkit.Patience {
					t.Fatalf("the visitor never sees %s", text)
				}
			}
			took = append(took, time.Since(began))
			v.log.take()
			for range 20 {
				if !v.shows(text) {
					t.Fatalf("after %s, %s is gone again", name, text)
				}
			}
			if asked := v.log.take(); len(asked) > 2 {
				t.Errorf("20 requests reached vitrine %d times", len(asked))
			}
		}
		slices.Sort(took)
		t.Logf("%s: median %v, at most %v", name, took[len(took)/2], took[len(took)-1])
		if took[len(took)/2] > reachTime {
			t.Errorf("%s: %v, want at most %v", name, took, reachTime)
		}
	}
	// Others are not told, and are not banned.
	<-time.After(1500 * time.Millisecond)
	var before reply
	testkit.Eventually(t, "Varnish keeps the rules", func() bool { // whose freshness a webhook without a change cuts short
		before = get(t, strings.Replace(v.url, routes[shape.Banners], routes[shape.Rules], 1))
		return len(strings.Fields(before.Header.Get("X-Varnish"))) == 2
	})
	v.log.take()
	v.Purge(string(shape.Banners))
	<-time.After(2 * time.Second)
	if again := get(t, strings.Replace(v.url, routes[shape.Banners], routes[shape.Rules], 1)); again.Header.Get("ETag") != before.Header.Get("ETag") || len(v.log.take()) != 0 {
		t.Error("the rules were banned as well")
	}
}

// TestAFrozenVarnishForgetsWhatWasPurgedMeanwhile: it accepts connections and answers nothing, until
// it goes on.
func TestAFrozenVarnishForgetsWhatWasPurgedMeanwhile(t *testing.T) {
	v := startEdge(t)
	signal := func(s syscall.Signal) {
		t.Helper()
		workers, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", v.varnish.Pid))
		if err != nil {
			t.Skipf("the worker of varnishd is looked up in /proc: run it on Linux: %v", err)
		}
		for pid := range strings.FieldsSeq(string(workers)) {
			worker, err := strconv.Atoi(pid)
			testkit.Must(t, errors.Join(err, syscall.Kill(worker, s)))
		}
	}
	finds := func(kind string) bool {
		return strings.Contains(string(get(t, "http://"+v.Operator+"/api/status").body), `"kind": "`+kind+`"`)
	}
	testkit.Eventually(t, "it is notified", func() bool { return !finds("not-notified") }) // which began before it listened
	signal(syscall.SIGSTOP)
	t.Cleanup(func() { signal(syscall.SIGCONT) })
	text := v.publish(2)
	v.Purge(string(shape.Banners))
	testkit.Eventually(t, "the status says that it cannot be notified", func() bool { return finds("not-notified") })
	signal(syscall.SIGCONT)
	testkit.Eventually(t, "the visitor sees the second", func() bool { return v.shows(text) })
	testkit.Eventually(t, "it is notified again", func() bool { return !finds("not-notified") })
}

// TestVarnishRefusesBansOfAnything: a ban names a group, and comes to the address of tellers. A
// visitor's comes from 127.0.0.1 as well, as behind a TLS terminator on the same host.
func TestVarnishRefusesBansOfAnything(t *testing.T) {
	v := startVitrine(t, nil, varnishTool, gccTool)
	tellers := harness.FreeAddress(t)
	url, _ := startVarnishAt(t, v, tellers)
	if status := send(t, "BAN", url+"/", "", "Cache-Groups", `"banners"`); status != http.StatusForbidden {
		t.Errorf("a visitor's ban is answered %d", status)
	}
	for groups, want := range map[string]int{"": http.StatusBadRequest, `"banners" || obj.status == 200`: http.StatusBadRequest, ".*": http.StatusBadRequest, `"banners"`: http.StatusOK} {
		if status := send(t, "BAN", "http://"+tellers+"/", "", "Cache-Groups", groups); status != want {
			t.Errorf("Cache-Groups %s: %d, want %d", groups, status, want)
		}
	}
}

// TestTheComposeFilesEdgeIsToldAtItsOwnAddress: visitors cannot ban, and vitrine can.
func TestTheComposeFilesEdgeIsToldAtItsOwnAddress(t *testing.T) {
	v := startVitrine(t, []string{"VITRINE_HTTP_CDN_MAX_AGE=30s"}, varnishTool, gccTool)
	page, err := os.ReadFile(filepath.Join(harness.Root, "docs", "deploy", "compose", "edge.vcl"))
	testkit.Must(t, err)
	host, port, _ := net.SplitHostPort(v.Addr)
	dir, visitors, tellers := t.TempDir(), harness.FreeAddress(t), harness.FreeAddress(t)
	vcl := write(t, dir, "edge.vcl", strings.NewReplacer(`.host = "vitrine"`, `.host = "`+host+`"`, `.port = "8080"`, `.port = "`+port+`"`).Replace(string(page)))
	harness.Run(t, visitors, varnishTool.path(t), "-F", "-j", "none", "-T", "none", "-n", dir, "-f", vcl, "-a", "visitors="+visitors, "-a", "tellers="+tellers, "-s", "default,64m")
	url := "http://" + visitors + routes[shape.Banners]
	get(t, url)
	v.log.take()
	for _, told := range []struct {
		address       string
		status, asked int
	}{{visitors, http.StatusForbidden, 0}, {tellers, http.StatusOK, 1}} {
		status := send(t, "BAN", "http://"+told.address+"/", "", "Cache-Groups", `"banners"`)
		get(t, url)
		if asked := v.log.take(); status != told.status || len(asked) != told.asked {
			t.Errorf("a ban is answered %d, and vitrine asked %d times; want %+v", status, len(asked), told)
		}
	}
}

// TestEachFillIsToldOnceByFourReplicas: fills that begin when the one before was notified are one call
// each, in order, with a second between two. Then replicas are killed as soon as the CMS has answered,
// and each fill is told at least once. LONG_VOLUME=100 makes 1,000 fills.
func TestEachFillIsToldOnceByFourReplicas(t *testing.T) {
	var mu sync.Mutex // guards told
	var told []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e struct{ Event, Resource, ETag string }
		body, err := io.ReadAll(r.Body)
		if err == nil && json.Unmarshal(body, &e) == nil && e.Resource == "banners" {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e.ETag)
		}
	}))
	t.Cleanup(server.Close)
	configuration := harness.File(t, "vitrine.yaml", "notify: [{name: hook, preset: webhook, url: '"+server.URL+"', events: [changed, purged]}]\n")
	content, redis := harness.NewContent(t), redistest.Start(t)
	var replicas []*harness.Child
	var public []string
	for range 4 {
		address := harness.FreeAddress(t)
		child := &harness.Child{Log: t.Output(), Environ: []string{
			"VITRINE_LISTEN=" + address, "VITRINE_REDIS_URL=" + redis.URL(), "VITRINE_UPSTREAM_URL=" + content.CMS.URL,
			"VITRINE_TTL=1h", "VITRINE_CONFIG=" + configuration, "VITRINE_LOG_LEVEL=warn",
		}}
		child.Start(t)
		t.Cleanup(child.Stop)
		replicas, public = append(replicas, child), append(public, address)
		harness.WaitUntilWell(t, "http://"+address+harness.Routes[shape.Banners])
	}
	// next publishes another version, and purges softly: one replica fetches it.
	next := func() (etag string) {
		t.Helper()
		content.Publish()
		normal, err := shape.Normalize(shape.Banners, []byte(content.Banners()))
		testkit.Must(t, err)
		testkit.Must(t, redis.Client().HSet(t.Context(), "vitrine:banners", "fresh_until", 0).Err())
		return cache.ETag(normal.Body)
	}
	has := func(etag string) bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Contains(told, etag)
	}
	testkit.Eventually(t, "the first document is told", func() bool { mu.Lock(); defer mu.Unlock(); return len(told) > 0 })
	mu.Lock()
	told = nil
	mu.Unlock()
	var want []string
	for range 10 * harness.Volume(t) {
		etag := next()
		want = append(want, etag)
		testkit.Eventually(t, "the fill is told", func() bool { return has(etag) })
	}
	<-time.After(3 * time.Second) // by when another replica would send it, too
	mu.Lock()
	if !slices.Equal(told, want) {
		t.Errorf("%d fills were told in %d calls:\n%q\n%q", len(want), len(told), want, told)
	}
	mu.Unlock()
	for i := range replicas {
		fetched := content.CMS.Count(shape.Banners)
		etag := next()
		content.CMS.WaitCount(shape.Banners, fetched+1)
		<-time.After(harness.PurgeBound / 4)
		replicas[i].Kill()
		replicas[i].Start(t)
		testkit.Within(t, 2*time.Minute, "a fill is told although a replica was killed", func() bool {
			client := http.Client{Timeout: time.Second}
			for _, address := range public { // one that was killed before its fill has left a lease
				if response, err := client.Get("http://" + address + harness.Routes[shape.Banners]); err == nil {
					response.Body.Close()
				}
			}
			return has(etag)
		})
	}
}
