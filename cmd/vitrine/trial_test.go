package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
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

const (
	faultTTL   = 200 * time.Millisecond
	purgeBound = 50 * time.Millisecond
)

// content is the banners of a CMS: a single one, whose id is the version.
type content struct {
	cms     *upstreamtest.CMS
	version atomic.Int64 // the newest
	floor   atomic.Int64 // the oldest that may be served,
	since   atomic.Int64 // to requests from then on, Unix nanoseconds
}

func newContent(t *testing.T) *content {
	c := &content{cms: upstreamtest.New(t)}
	c.publish()
	c.floor.Store(1)
	return c
}

// banners is the newest content.
func (c *content) banners() string { return fmt.Sprintf(`[{"id":%d}]`, c.version.Load()) }

// publish puts a new version into the CMS.
func (c *content) publish() {
	c.version.Add(1)
	c.cms.Set(shape.Banners, c.banners())
}

// purge removes the document from Redis once a new version of it is published.
func (c *content) purge(t *testing.T, redis *redistest.Server) {
	t.Helper()
	c.publish()
	if err := testkit.Retry(func() error { return redis.Client().Del(context.Background(), "vitrine:banners").Err() }); err != nil {
		t.Fatal(err)
	}
	c.since.Store(time.Now().Add(purgeBound).UnixNano())
	c.floor.Store(c.version.Load())
}

var bannerID = regexp.MustCompile(`"id":(\d+)`)

// judge is an error for a body that is not the CMS's, or older than the last purge when it was asked
// for.
func (c *content) judge(body []byte, began time.Time) error {
	floor := c.floor.Load() // before since, which a purge sets first
	if began.UnixNano() < c.since.Load() {
		floor = 1
	}
	found := bannerID.FindSubmatch(body)
	if found == nil {
		return fmt.Errorf("%.60q", body)
	}
	if v, _ := strconv.ParseInt(string(found[1]), 10, 64); v < floor || v > c.version.Load() {
		return fmt.Errorf("version %d of %d to %d", v, floor, c.version.Load())
	}
	return nil
}

// A trial is a vitrine under load, with a CMS and a Redis to do harm to.
type trial struct {
	*content
	t        *testing.T
	redis    *redistest.Server
	setRedis func(hours int) // Redis's clock
	vitrine  child
	public   string
	operator string
	log      testkit.Buffer

	killed  atomic.Int64 // when the process was last, Unix nanoseconds
	answers atomic.Int64

	mu      sync.Mutex // guards what follows
	wrong   []string   // answers that must not be
	worst   time.Duration
	details map[string]bool // of Cache-Status
}

func newTrial(t *testing.T) *trial {
	tr := &trial{content: newContent(t), t: t, operator: freeAddress(t), details: map[string]bool{}}
	tr.redis, tr.setRedis = redisWithAClock(t, "--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024", "--key-load-delay", "400")
	tr.vitrine = child{program: build(t, anHour(t)...), files: 400, log: &tr.log}
	tr.public, tr.vitrine.socket = openSocket(t)
	tr.vitrine.environ = []string{
		"VITRINE_ADMIN_LISTEN=" + tr.operator, "VITRINE_LOG_FORMAT=json",
		"VITRINE_UPSTREAM_URL=" + tr.cms.URL, "VITRINE_UPSTREAM_TIMEOUT=500ms", "VITRINE_UPSTREAM_RETRIES=0",
		"VITRINE_REDIS_URL=" + tr.redis.URL(), "VITRINE_TTL=" + faultTTL.String(), "VITRINE_LAST_GOOD=" + t.TempDir(),
	}
	tr.vitrine.start(t)
	t.Cleanup(tr.vitrine.stop)
	if err := testkit.Retry(func() error { return isWellAt("http://" + tr.operator + "/readyz") }); err != nil {
		t.Fatal(err)
	}
	return tr
}

// visit asks once, and judges the answer.
func (tr *trial) visit(client *http.Client) {
	began := time.Now()
	complain := func(format string, args ...any) {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.wrong = append(tr.wrong, fmt.Sprintf(format, args...))
	}
	get := func() (code int, status string, body []byte, err error) {
		response, err := client.Get("http://" + tr.public + "/gvapp/singlebanner")
		if err != nil {
			return 0, "", nil, err
		}
		defer response.Body.Close()
		body, err = io.ReadAll(response.Body)
		return response.StatusCode, response.Header.Get("Cache-Status"), body, err
	}
	code, status, body, err := get()
	if err != nil && tr.killed.Load() >= began.UnixNano() { // cut off with the process: asked again, as a balancer does
		code, status, body, err = get()
	}
	if err != nil {
		complain("%v", err)
		return
	}
	took := time.Since(began)
	tr.answers.Add(1)
	if code != http.StatusOK {
		complain("status %d, %.60q, %s", code, body, status)
		return
	}
	if err := tr.judge(body, began); err != nil {
		complain("%v, %s", err, status)
	}
	_, detail, _ := strings.Cut(status, "detail=")
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.worst = max(tr.worst, took)
	if detail != "" {
		tr.details[detail] = true
	}
}

// load visits until stop is called. It returns when each visitor has a connection.
func (tr *trial) load() (stop func()) {
	var stopping atomic.Bool
	var all, connected sync.WaitGroup
	for range 4 {
		connected.Add(1)
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
			tr.visit(client)
			connected.Done()
			for !stopping.Load() {
				tr.visit(client)
			}
			client.CloseIdleConnections()
		})
	}
	connected.Wait()
	return func() {
		stopping.Store(true)
		all.Wait()
	}
}

// kill ends the process while it fetches, if it does within a while, and starts another.
func (tr *trial) kill() {
	release := tr.cms.Block()
	fetched := tr.cms.Count(shape.Banners)
	for deadline := time.Now().Add(2 * faultTTL); tr.cms.Count(shape.Banners) == fetched && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	tr.killed.Store(time.Now().Add(time.Second).UnixNano())
	tr.vitrine.kill()
	release()
	tr.vitrine.start(tr.t)
}

// operatorSays is what the operator's address answers.
func (tr *trial) operatorSays(path string) (string, error) {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get("http://" + tr.operator + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// metric reads a metric of the process.
func (tr *trial) metric(name string) float64 {
	tr.t.Helper()
	text, err := tr.operatorSays("/metrics")
	_, rest, _ := strings.Cut(text, "\n"+name+" ")
	value, _, _ := strings.Cut(rest, "\n")
	number, nerr := strconv.ParseFloat(value, 64)
	if err != nil || nerr != nil {
		tr.t.Fatalf("no %s: %v %v", name, err, nerr)
	}
	return number
}

func (tr *trial) signal(s syscall.Signal) func() { return func() { tr.vitrine.signal(s) } }
