package rolling

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// Under load, with visitors who wait for a slow CMS since the document was purged a moment before
// each reload, no request fails, nothing older than a purge is served, and connections that are kept
// are with the newest configuration: each allows another origin.
func TestReloadsWhileTheCMSIsSlowFailNoRequestAndLeaveNoConnectionBehind(t *testing.T) {
	redis, content := redistest.Start(t), harness.NewContent(t)
	public, socket := harness.OpenSocket(t)
	file := filepath.Join(t.TempDir(), "vitrine.yaml")
	origin := func(n int) string { return fmt.Sprintf("https://n%d.example", n) }
	configure := func(n int) {
		t.Helper()
		testkit.Must(t, os.WriteFile(file, fmt.Appendf(nil, "cors: {origins: [%q]}\n", origin(n)), 0o600))
	}
	configure(0)
	var log testkit.Buffer
	vitrine := harness.Child{Socket: socket, Log: &log, Environ: []string{
		"VITRINE_CONFIG=" + file, "VITRINE_TTL=1h", "VITRINE_LOG_FORMAT=json",
		"VITRINE_UPSTREAM_URL=" + content.CMS.URL, "VITRINE_REDIS_URL=" + redis.URL(),
	}}
	vitrine.Start(t)
	defer vitrine.Stop()
	asked, stop := visitors(t, public, content.Judge)
	testkit.Eventually(t, "the first visits", func() bool { return t.Failed() || asked.Load() >= 100 })

	type kept struct {
		net.Conn
		answers *bufio.Reader
	}
	var all []kept
	for range 10 {
		conn := testkit.Dial(t, "tcp", public)
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
		content.Remove(t, redis)
		testkit.Receive(t, fetching) // for visitors who wait for it across the reload
		configure(n + 1)
		vitrine.Signal(syscall.SIGHUP)
		testkit.Eventually(t, "reload "+origin(n+1), func() bool { return t.Failed() || strings.Contains(log.String(), `"to":"`+origin(n+1)+`"`) })
		for i, c := range all {
			testkit.Eventually(t, fmt.Sprintf("connection %d after reload %d", i, n), func() bool { return t.Failed() || allows(c, origin(n+1)) })
		}
	}
	stop()
	t.Logf("%d requests were answered", asked.Load())
	if text := log.String(); strings.Contains(text, "cut off") || strings.Contains(text, "not reloaded") {
		t.Errorf("logged:\n%s", text)
	}
}
