package faults

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

const faultTTL = 200 * time.Millisecond

// A trial is a vitrine under load, with a CMS and a Redis to do harm to.
type trial struct {
	*harness.Content
	t        *testing.T
	redis    *redistest.Server
	way      *redistest.Relay // between vitrine and Redis
	setRedis func(hours int)  // Redis's clock
	vitrine  harness.Child
	endpoint *endpoint
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
	tr := &trial{Content: harness.NewContent(t), t: t, operator: harness.FreeAddress(t), details: map[string]bool{}, endpoint: newEndpoint(t)}
	tr.redis, tr.setRedis = redisWithAClock(t, "--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024", "--key-load-delay", "400")
	tr.way = redistest.NewRelay(t, tr.redis.Addr)
	tr.vitrine = harness.Child{Program: harness.BuildChanged(t, anHour(t)...), Files: 400, Log: &tr.log}
	tr.public, tr.vitrine.Socket = harness.OpenSocket(t)
	tr.vitrine.Environ = []string{
		"VITRINE_ADMIN_LISTEN=" + tr.operator, "VITRINE_LOG_FORMAT=json", "VITRINE_CONFIG=" + tr.endpoint.configuration(),
		"VITRINE_UPSTREAM_URL=" + tr.CMS.URL, "VITRINE_UPSTREAM_TIMEOUT=500ms", "VITRINE_UPSTREAM_RETRIES=0",
		"VITRINE_REDIS_URL=" + tr.way.URL(), "VITRINE_TTL=" + faultTTL.String(), "VITRINE_LAST_GOOD=" + t.TempDir(),
	}
	tr.vitrine.Start(t)
	t.Cleanup(tr.vitrine.Stop)
	harness.WaitUntilWell(t, "http://"+tr.operator+"/readyz")
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
	get := func() (int, http.Header, []byte, error) {
		return harness.Get(client, "http://"+tr.public+"/gvapp/singlebanner")
	}
	code, header, body, err := get()
	if err != nil && tr.killed.Load() >= began.UnixNano() { // cut off with the process: asked again, as a balancer does
		code, header, body, err = get()
	}
	if err != nil {
		complain("%v", err)
		return
	}
	took, status := time.Since(began), header.Get("Cache-Status")
	tr.answers.Add(1)
	if code != http.StatusOK {
		complain("status %d, %.60q, %s", code, body, status)
		return
	}
	if strings.HasSuffix(status, "detail=redis-away") { // it may be older than a purge: docs/coherence.md
		began = time.Unix(0, 0)
	}
	if err := tr.Judge(body, began); err != nil {
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

// banners asks for them over a connection of its own, and returns the header of the answer.
func (tr *trial) banners() (http.Header, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	_, header, _, err := harness.Get(client, "http://"+tr.public+"/gvapp/singlebanner")
	return header, err
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
	release := tr.CMS.Block()
	fetched := tr.CMS.Count(shape.Banners)
	for deadline := time.Now().Add(2 * faultTTL); tr.CMS.Count(shape.Banners) == fetched && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	tr.killed.Store(time.Now().Add(time.Second).UnixNano())
	tr.vitrine.Kill()
	release()
	tr.vitrine.Start(tr.t)
}

// operatorSays asks the admin address.
func (tr *trial) operatorSays(path string) (string, error) {
	_, _, body, err := harness.Get(&http.Client{Timeout: 10 * time.Second}, "http://"+tr.operator+path)
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

func (tr *trial) signal(s syscall.Signal) func() { return func() { tr.vitrine.Signal(s) } }
