package main

import (
	goflag "flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

var (
	faultsAll  = goflag.Bool("faults", false, "try all pairs of faults, not only some")
	faultsPage = goflag.Bool("faultspage", false, "write what was tried into docs/faults.md")
	faultsSeed = goflag.Uint64("seed", 1, "of the choice of faults")
	soakTime   = goflag.Duration("soak", 0, "how long to try faults at random")
)

const (
	faultTTL   = 200 * time.Millisecond
	purgeBound = 50 * time.Millisecond
)

// A fault is something that goes wrong with a neighbour, or with the process.
type fault struct {
	name       string
	begin, end func()
}

// A trial is a vitrine under load, with a CMS and a Redis to do harm to.
type trial struct {
	t        *testing.T
	cms      *upstreamtest.CMS
	redis    *redistest.Server
	vitrine  *exec.Cmd
	public   string
	operator string
	log      testkit.Buffer

	version atomic.Int64 // of the newest content, the id of the only banner
	floor   atomic.Int64 // the oldest version that may be served,
	since   atomic.Int64 // to requests from then on, Unix nanoseconds
	answers atomic.Int64

	mu      sync.Mutex // guards what follows
	wrong   []string   // answers that must not be
	worst   time.Duration
	details map[string]bool // of Cache-Status
}

func newTrial(t *testing.T) *trial {
	tr := &trial{
		t: t, cms: upstreamtest.New(t), redis: redistest.Start(t),
		public: freeAddress(t), operator: freeAddress(t), details: map[string]bool{},
	}
	tr.publish()
	tr.floor.Store(1)
	tr.vitrine = exec.Command("vitrine", "serve")
	tr.vitrine.Env = append(os.Environ(), "VITRINE_LISTEN="+tr.public, "VITRINE_ADMIN_LISTEN="+tr.operator, "VITRINE_LOG_FORMAT=json",
		"VITRINE_UPSTREAM_URL="+tr.cms.URL, "VITRINE_UPSTREAM_TIMEOUT=500ms", "VITRINE_UPSTREAM_RETRIES=0",
		"VITRINE_REDIS_URL="+tr.redis.URL(), "VITRINE_TTL="+faultTTL.String(), "VITRINE_LAST_GOOD="+t.TempDir())
	tr.vitrine.Stdout, tr.vitrine.Stderr = io.Discard, &tr.log
	if err := tr.vitrine.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = tr.vitrine.Process.Signal(syscall.SIGTERM)
		if err := tr.vitrine.Wait(); err != nil {
			t.Errorf("vitrine: %v", err)
		}
	})
	if err := testkit.Retry(func() error { return isWellAt("http://" + tr.operator + "/readyz") }); err != nil {
		t.Fatal(err)
	}
	return tr
}

// publish puts a new version into the CMS.
func (tr *trial) publish() {
	tr.cms.Set(shape.Banners, fmt.Sprintf(`[{"id":%d}]`, tr.version.Add(1)))
}

var bannerID = regexp.MustCompile(`"id":(\d+)`)

// visit asks once, and judges the answer.
func (tr *trial) visit(client *http.Client) {
	began := time.Now()
	floor := int64(1)
	if began.UnixNano() >= tr.since.Load() {
		floor = tr.floor.Load()
	}
	complain := func(format string, args ...any) {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.wrong = append(tr.wrong, fmt.Sprintf(format, args...))
	}
	response, err := client.Get("http://" + tr.public + "/gvapp/singlebanner")
	if err != nil {
		complain("%v", err)
		return
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	took := time.Since(began)
	tr.answers.Add(1)
	status := response.Header.Get("Cache-Status")
	found := bannerID.FindSubmatch(body)
	if err != nil || response.StatusCode != http.StatusOK || found == nil {
		complain("status %d, %.60q, %s, %v", response.StatusCode, body, status, err)
		return
	}
	if v, _ := strconv.ParseInt(string(found[1]), 10, 64); v < floor || v > tr.version.Load() {
		complain("version %d of %d to %d, %s", v, floor, tr.version.Load(), status)
	}
	_, detail, _ := strings.Cut(status, "detail=")
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.worst = max(tr.worst, took)
	if detail != "" {
		tr.details[detail] = true
	}
}

// load visits until stop is called.
func (tr *trial) load() (stop func()) {
	var stopping atomic.Bool
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
			for !stopping.Load() {
				tr.visit(client)
			}
			client.CloseIdleConnections()
		})
	}
	return func() {
		stopping.Store(true)
		all.Wait()
	}
}

// metric reads a metric of the process.
func (tr *trial) metric(name string) float64 {
	tr.t.Helper()
	response, err := http.Get("http://" + tr.operator + "/metrics")
	if err != nil {
		tr.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	_, rest, ok := strings.Cut(string(body), "\n"+name+" ")
	value, _, _ := strings.Cut(rest, "\n")
	number, nerr := strconv.ParseFloat(value, 64)
	if err != nil || !ok || nerr != nil {
		tr.t.Fatalf("no %s: %v %v", name, err, nerr)
	}
	return number
}

// faultsOf are the faults of the CMS, of Redis, and of the process.
func (tr *trial) faultsOf() (cms, redis, process []fault) {
	none := func() {}
	client := tr.redis.Client()
	set := func(name, value string) func() {
		return func() {
			if err := client.ConfigSet(tr.t.Context(), name, value).Err(); err != nil {
				tr.t.Error(err)
			}
		}
	}
	var flapping sync.WaitGroup
	flap := func(on, off func()) (begin, end func()) {
		var stop chan struct{}
		begin = func() {
			stop = make(chan struct{})
			flapping.Go(func() {
				tick := time.NewTicker(40 * time.Millisecond)
				defer tick.Stop()
				for i := 0; ; i++ {
					if i%3 == 0 {
						off()
					} else {
						on()
					}
					select {
					case <-stop:
						off()
						return
					case <-tick.C:
					}
				}
			})
		}
		return begin, func() { close(stop); flapping.Wait() }
	}
	var release func()
	cms = []fault{
		{"CMS refuses connections", tr.cms.Down, tr.cms.Up},
		{"CMS fails", func() { tr.cms.Fail(500) }, tr.cms.Recover},
		{"CMS hangs", func() { release = tr.cms.Block() }, func() { release() }},
		{"CMS sends another type", func() { tr.cms.Set(shape.Banners, `{"id":0}`) }, func() {
			tr.cms.Set(shape.Banners, fmt.Sprintf(`[{"id":%d}]`, tr.version.Load()))
		}},
		{"CMS flaps", none, none},
	}
	cms[4].begin, cms[4].end = flap(func() { tr.cms.Fail(503) }, tr.cms.Recover)
	redis = []fault{
		{"Redis is killed", tr.redis.Kill, tr.redis.Restart},
		{"Redis restarts empty", tr.redis.Restart, none},
		{"Redis hangs", tr.redis.Pause, tr.redis.Resume},
		{"Redis is read-only", set("min-replicas-to-write", "1"), set("min-replicas-to-write", "0")},
		{"Redis is out of memory", set("maxmemory", "1"), set("maxmemory", "0")},
		{"Redis flaps", none, none},
	}
	redis[5].begin, redis[5].end = flap(tr.redis.Pause, tr.redis.Resume)
	process = []fault{{"vitrine is stopped for a while", func() {
		if err := tr.vitrine.Process.Signal(syscall.SIGSTOP); err != nil {
			tr.t.Error(err)
		}
	}, func() {
		if err := tr.vitrine.Process.Signal(syscall.SIGCONT); err != nil {
			tr.t.Error(err)
		}
	}}}
	return cms, redis, process
}

// A cell is what one or two faults came to.
type cell struct {
	name                       string
	answers, fetches, warnings int
	worst, recovery            time.Duration
	details                    []string
}

// try lets faults happen, one after the other and each while those before it last, and asserts what
// must hold meanwhile and afterwards.
func (tr *trial) try(hold time.Duration, faults ...fault) cell {
	tr.t.Helper()
	names := make([]string, len(faults))
	for i, f := range faults {
		names[i] = f.name
	}
	c := cell{name: strings.Join(names, ", then ")}
	tr.mu.Lock()
	tr.worst, tr.wrong, tr.details = 0, nil, map[string]bool{}
	tr.mu.Unlock()
	began, answers, fetches := time.Now(), tr.answers.Load(), tr.cms.Count(shape.Banners)
	lines := tr.log.String()
	stop := tr.load()
	wait := func(d time.Duration) { <-time.After(d) }
	for _, f := range faults {
		f.begin()
		wait(hold)
	}
	for _, f := range slices.Backward(faults) {
		f.end()
	}
	ended := time.Now()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	testkit.Eventually(tr.t, c.name+": recovery", func() bool {
		response, err := client.Get("http://" + tr.public + "/gvapp/singlebanner")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return strings.HasPrefix(response.Header.Get("Cache-Status"), "vitrine; hit; ttl=") &&
			!strings.Contains(response.Header.Get("Cache-Status"), "ttl=-") && !strings.Contains(response.Header.Get("Cache-Status"), "redis-")
	})
	c.recovery = time.Since(ended)

	// A purge counts at once, as before.
	tr.publish()
	if err := tr.redis.Client().Del(tr.t.Context(), "vitrine:banners").Err(); err != nil {
		tr.t.Error(err)
	}
	tr.since.Store(time.Now().Add(purgeBound).UnixNano())
	tr.floor.Store(tr.version.Load())
	wait(purgeBound + 50*time.Millisecond)
	stop()

	took := time.Since(began)
	c.answers, c.fetches = int(tr.answers.Load()-answers), tr.cms.Count(shape.Banners)-fetches
	for line := range strings.Lines(strings.TrimPrefix(tr.log.String(), lines)) {
		if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) {
			c.warnings++
		}
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	c.worst = tr.worst
	for d := range tr.details {
		c.details = append(c.details, d)
	}
	slices.Sort(c.details)
	if len(tr.wrong) > 0 {
		tr.t.Errorf("%s: %d of %d answers are wrong: %q", c.name, len(tr.wrong), c.answers, tr.wrong[:min(3, len(tr.wrong))])
	}
	if most := int(took/faultTTL) + 4; c.fetches > most {
		tr.t.Errorf("%s: %d fetches in %v, want at most %d", c.name, c.fetches, took, most)
	}
	if c.warnings > 25 {
		tr.t.Errorf("%s: %d warnings", c.name, c.warnings)
	}
	if limit := 3*time.Second + hold; c.worst > limit {
		tr.t.Errorf("%s: an answer took %v", c.name, c.worst)
	}
	return c
}

// Whatever goes wrong around vitrine, visitors get the last good copy, nobody gets anything older
// than a purge, and afterwards all is as before: docs/faults.md.
func TestNoFaultCostsAVisitorAnAnswer(t *testing.T) {
	tr := newTrial(t)
	cms, redis, process := tr.faultsOf()
	random := rand.New(rand.NewPCG(*faultsSeed, 0))
	var cells []cell
	for _, f := range slices.Concat(cms, redis, process) {
		cells = append(cells, tr.try(400*time.Millisecond, f))
	}
	var pairs [][]fault
	for _, a := range cms {
		for _, b := range redis {
			pairs = append(pairs, []fault{a, b}, []fault{b, a})
		}
	}
	if !*faultsAll {
		random.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
		pairs = pairs[:4]
	}
	goroutines, memory := tr.metric("go_goroutines"), tr.metric("process_resident_memory_bytes")
	for _, pair := range pairs {
		cells = append(cells, tr.try(300*time.Millisecond, pair...))
	}
	for end := time.Now().Add(*soakTime); time.Now().Before(end) && !t.Failed(); {
		pick := func(faults []fault) fault { return faults[random.IntN(len(faults))] }
		some := []fault{pick(cms), pick(redis), pick(process)}
		random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		tr.try(time.Duration(random.IntN(1000))*time.Millisecond, some[:1+random.IntN(2)]...)
	}
	testkit.Eventually(t, "goroutines end", func() bool { return tr.metric("go_goroutines") <= goroutines+10 })
	grown := (tr.metric("process_resident_memory_bytes") - memory) / (1 << 20)
	if grown > 25 {
		t.Errorf("memory grew by %.0f MB", grown)
	}
	t.Logf("%d answers, memory grew by %.1f MB, seed %d, soak %v", tr.answers.Load(), grown, *faultsSeed, *soakTime)
	if *faultsPage {
		writeFaults(t, cells)
	}
}

const faultsMark = "<!-- made by go test ./cmd/vitrine -run TestNoFaultCostsAVisitorAnAnswer -faultspage -->\n"

func writeFaults(t *testing.T, cells []cell) {
	t.Helper()
	page := filepath.Join("..", "..", "docs", "faults.md")
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(content), faultsMark)
	out := head + faultsMark + "| fault | answers | slowest | fetches | back to normal after | warnings | `detail` meanwhile |\n|---|---|---|---|---|---|---|\n"
	for _, c := range cells {
		out += fmt.Sprintf("| %s | %d | %d ms | %d | %d ms | %d | %s |\n", c.name, c.answers, c.worst.Milliseconds(), c.fetches,
			c.recovery.Milliseconds(), c.warnings, strings.Join(c.details, ", "))
	}
	if err := os.WriteFile(page, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
}
