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
	"path/filepath"
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
	redis, cms := redistest.Start(t), upstreamtest.New(t)
	public, socket := harness.OpenSocket(t)
	file := filepath.Join(t.TempDir(), "vitrine.yaml")
	configure := func(n int) {
		t.Helper()
		testkit.Must(t, os.WriteFile(file, fmt.Appendf(nil, "http: {max_age: %ds}\n", n), 0o600))
	}
	configure(0)
	var log testkit.Buffer
	vitrine := harness.Child{Socket: socket, Log: &log, Environ: []string{
		"VITRINE_CONFIG=" + file, "VITRINE_TTL=1h", "VITRINE_LOG_FORMAT=json",
		"VITRINE_UPSTREAM_URL=" + cms.URL, "VITRINE_REDIS_URL=" + redis.URL(),
		"VITRINE_REDIS_PURGE_BOUND=1s", // a busy machine's Redis is not taken for unreachable, and nothing is fetched without it
	}}
	vitrine.Start(t)
	defer vitrine.Stop()

	volume := harness.Volume(t)
	first := &visit{address: public, asked: new(atomic.Int64)}
	want, err := first.get(true)
	testkit.Must(t, err)
	first.close()
	asked, stop := visitors(t, public, func(body []byte, _ time.Time) error {
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
		configure(n + 1)
		vitrine.Signal(syscall.SIGHUP)
		to := fmt.Sprintf(`"to":"%s"`, strings.Replace((time.Duration(n+1)*time.Second).String(), "m0s", "m", 1))
		testkit.Eventually(t, "reload "+to, func() bool { return t.Failed() || strings.Contains(log.String(), to) })
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
	if text := log.String(); strings.Contains(text, "cut off") || strings.Contains(text, "not reloaded") {
		t.Errorf("logged:\n%s", text)
	}
}
