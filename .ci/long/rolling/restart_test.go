package rolling

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
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
	"vitrine/upstream/upstreamtest"
)

// A visit asks for the banners again and again and never a second time for the same: what fails,
// fails. It keeps its connection until told to close it, or for some requests.
type visit struct {
	address string
	asked   *atomic.Int64
	pause   time.Duration // in the middle of a request, and before its answer is read
	conn    net.Conn
	r       *bufio.Reader
}

func (v *visit) get(newConnection bool) (body []byte, err error) {
	if v.conn == nil || newConnection {
		v.close()
		if v.conn, err = net.Dial("tcp", v.address); err != nil {
			return nil, err
		}
		v.r = bufio.NewReader(v.conn)
	}
	if err := v.conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return nil, err
	}
	for _, half := range []string{"GET /gvapp/singlebanner HTTP/1.1\r\nHo", "st: gallery.example\r\n\r\n"} {
		if _, err := io.WriteString(v.conn, half); err != nil {
			return nil, err
		}
		if v.pause > 0 {
			<-time.After(v.pause)
		}
	}
	response, err := http.ReadResponse(v.r, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		return nil, err
	}
	v.asked.Add(1)
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d: %s", response.StatusCode, body)
	}
	if response.Close {
		v.close()
	}
	return body, nil
}

func (v *visit) close() {
	if v.conn != nil {
		_ = v.conn.Close() // nothing is awaited from it
		v.conn = nil
	}
}

// visitors load an address until stop is called, and count what was answered. Each answer is judged
// with the time at which it was asked for.
func visitors(t *testing.T, address string, judge func(body []byte, began time.Time) error) (asked *atomic.Int64, stop func()) {
	asked = new(atomic.Int64)
	var stopping atomic.Bool
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			v := &visit{address: address, asked: asked}
			if i >= 6 { // slow ones
				v.pause = 100 * time.Millisecond
			}
			defer v.close()
			for n := 0; !stopping.Load(); n++ {
				began := time.Now()
				body, err := v.get(i < 2 || n%(50*i) == 0)
				if err == nil {
					err = judge(body, began)
				}
				if err != nil {
					t.Errorf("visitor %d, request %d: %v", i, n, err)
					return
				}
			}
		})
	}
	return asked, func() {
		stopping.Store(true)
		all.Wait()
	}
}

// Under load, a configuration is reloaded 20 times and the program is replaced five times, and no
// request fails, nor is anything fetched that was fetched before.
func TestReloadsAndUpgradesFailNoRequest(t *testing.T) {
	cms := upstreamtest.New(t)
	// A busy machine's Redis is not taken for unreachable, and nothing is fetched without it.
	vitrine := startReloaded(t, cms, "http: {max_age: 0s}", "VITRINE_REDIS_PURGE_BOUND=1s")
	volume := harness.Volume(t)
	first := &visit{address: vitrine.public, asked: new(atomic.Int64)}
	want, err := first.get(true)
	testkit.Must(t, err)
	first.close()
	asked, stop := visitors(t, vitrine.public, func(body []byte, _ time.Time) error {
		if !bytes.Equal(body, want) {
			return errors.New("another document")
		}
		return nil
	})
	load := func(step string, n int) {
		t.Helper()
		from := asked.Load()
		testkit.Eventually(t, step, func() bool { return t.Failed() || asked.Load() >= from+int64(n) })
	}
	load("the first visits", 100)
	for n := range 20 * volume {
		to := strings.Replace((time.Duration(n+1) * time.Second).String(), "m0s", "m", 1)
		vitrine.reload(fmt.Sprintf("http: {max_age: %ds}", n+1), to)
		load("visits after a reload", 20)
	}
	for range 5 * volume {
		vitrine.Stop()
		vitrine.Start(t)
		load("visits after an upgrade", 50)
	}
	stop()
	t.Logf("%d requests were answered", asked.Load())
	for _, r := range shape.Resources() {
		if n := cms.Count(r); n != 1 {
			t.Errorf("%s was fetched %d times", r, n)
		}
	}
	loggedNoFailure(t, &vitrine.log)
}

// A reloaded is a vitrine on a socket that outlives it, whose configuration changes.
type reloaded struct {
	*harness.Child
	t            *testing.T
	public, file string
	redis        *redistest.Server
	log          testkit.Buffer
}

func startReloaded(t *testing.T, cms *upstreamtest.CMS, configuration string, environ ...string) *reloaded {
	t.Helper()
	public, socket := harness.OpenSocket(t)
	r := &reloaded{t: t, public: public, file: harness.File(t, "vitrine.yaml", configuration), redis: redistest.Start(t)}
	r.Child = &harness.Child{Socket: socket, Log: &r.log, Environ: append([]string{
		"VITRINE_CONFIG=" + r.file, "VITRINE_TTL=1h", "VITRINE_LOG_FORMAT=json",
		"VITRINE_UPSTREAM_URL=" + cms.URL, "VITRINE_REDIS_URL=" + r.redis.URL(),
	}, environ...)}
	r.Start(t)
	t.Cleanup(r.Stop)
	return r
}

// reload waits until another configuration counts, of which the log says what a setting changes to.
func (r *reloaded) reload(configuration, to string) {
	r.t.Helper()
	testkit.Must(r.t, os.WriteFile(r.file, []byte(configuration), 0o600))
	r.Signal(syscall.SIGHUP)
	testkit.Eventually(r.t, "reload "+to, func() bool { return r.t.Failed() || strings.Contains(r.log.String(), `"to":"`+to+`"`) })
}

func loggedNoFailure(t *testing.T, log *testkit.Buffer) {
	t.Helper()
	if text := log.String(); strings.Contains(text, "cut off") || strings.Contains(text, "not reloaded") {
		t.Errorf("logged:\n%s", text)
	}
}

// Under load, with visitors who wait for a slow CMS since the document was purged a moment before
// each reload, no request fails, nothing older than a purge is served, and connections that are
// kept are with the newest configuration: each allows another origin.
func TestReloadsWhileTheCMSIsSlowFailNoRequestAndLeaveNoConnectionBehind(t *testing.T) {
	content := harness.NewContent(t)
	origin := func(n int) string { return fmt.Sprintf("https://n%d.example", n) }
	allowing := func(n int) string { return fmt.Sprintf("cors: {origins: [%q]}\n", origin(n)) }
	vitrine := startReloaded(t, content.CMS, allowing(0))
	asked, stop := visitors(t, vitrine.public, content.Judge)
	testkit.Eventually(t, "the first visits", func() bool { return t.Failed() || asked.Load() >= 100 })

	type kept struct {
		net.Conn
		answers *bufio.Reader
	}
	var all []kept
	for range 10 {
		conn := testkit.Dial(t, "tcp", vitrine.public)
		all = append(all, kept{conn, bufio.NewReader(conn)})
	}
	allows := func(c kept, origin string) bool {
		t.Helper()
		testkit.Must(t, c.SetDeadline(time.Now().Add(testkit.Patience)))
		testkit.Write(t, c, "GET /gvapp/singlebanner HTTP/1.1\r\nHost: x\r\nOrigin: "+origin+"\r\n\r\n")
		answer, err := http.ReadResponse(c.answers, nil)
		testkit.Must(t, err)
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK || answer.Close {
			t.Fatalf("%s %v %v", answer.Status, answer.Header, err)
		}
		return answer.Header.Get("Access-Control-Allow-Origin") == origin
	}
	for n := range 20 * harness.Volume(t) {
		content.Publish()
		fetching := make(chan struct{}, 1)
		banners := upstreamtest.JSON(content.Banners())
		content.CMS.Handle(shape.Banners, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case fetching <- struct{}{}:
			default:
			}
			<-time.After(200 * time.Millisecond)
			banners.ServeHTTP(w, r)
		}))
		content.Remove(t, vitrine.redis)
		testkit.Receive(t, fetching) // for visitors who wait for it across the reload
		vitrine.reload(allowing(n+1), "["+origin(n+1)+"]")
		for i, c := range all {
			testkit.Eventually(t, fmt.Sprintf("connection %d after reload %d", i, n), func() bool { return t.Failed() || allows(c, origin(n+1)) })
		}
	}
	stop()
	t.Logf("%d requests were answered", asked.Load())
	loggedNoFailure(t, &vitrine.log)
}
