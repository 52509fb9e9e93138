package service

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/config"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestARotatedTokenIsUsedByTheNextFetch(t *testing.T) {
	t.Parallel()
	cms := upstreamtest.New(t)
	upstreamURL := "VITRINE_UPSTREAM_URL=" + cms.URL
	vitrine := start(t, upstreamURL, "VITRINE_UPSTREAM_AUTHORIZATION=Token old", "VITRINE_UPSTREAM_RETRIES=0")
	vitrine.allAnswer(t, "hit")
	testkit.Eventually(t, "Redis holds the rules", func() bool { // which a slow machine may not reach in time at first
		vitrine.get(t, shape.Rules)
		present, err := vitrine.store.Present(t.Context(), string(shape.Rules))
		return err == nil && present.Document != nil
	})
	rules := cms.Count(shape.Rules)
	testkit.Must(t, vitrine.reload(settings(t, upstreamURL, "VITRINE_UPSTREAM_AUTHORIZATION=Token new", "VITRINE_UPSTREAM_RETRIES=0")))
	fetched := cms.Count(shape.Banners)
	_, err := vitrine.present.Load().store.Purge(t.Context(), "banners", false) // that of before is closed
	testkit.Must(t, err)
	testkit.Eventually(t, "they are fetched", func() bool {
		vitrine.get(t, shape.Banners)
		return cms.Count(shape.Banners) > fetched
	})
	if got := cms.Last().Header.Get("Authorization"); got != "Token new" {
		t.Errorf("fetched with %q", got)
	}
	// The documents are of the same source, so that nothing else was fetched for it.
	if n := cms.Count(shape.Rules) - rules; n != 0 {
		t.Errorf("the rules were fetched %d times more", n)
	}
}

// What was bound, opened or sized at the start changes as everything else does.
func TestNearlyEverySettingCanBeReloaded(t *testing.T) {
	t.Parallel()
	vitrine := start(t)
	vitrine.allAnswer(t, "hit")
	public, operator := freeAddress(t), freeAddress(t)
	testkit.Must(t, vitrine.reload(settings(t, "VITRINE_LISTEN="+public, "VITRINE_ADMIN_LISTEN="+operator,
		"VITRINE_REDIS_PREFIX=other:", "VITRINE_STALE_IF_ERROR=1h", "VITRINE_LIMITS_TARGET=256")))
	got, err := testkit.Ask(http.DefaultClient, "http://"+public+shape.Banners.Route()+"?"+strings.Repeat("x", 300))
	if err != nil || got.Status != http.StatusRequestURITooLong {
		t.Errorf("status %d, %v", got.Status, err)
	}
	testkit.Check(t, isWellAt("http://"+operator+"/readyz"))
	testkit.Eventually(t, "the address before answers no more", func() bool {
		_, err := testkit.Ask(http.DefaultClient, "http://"+vitrine.public.Addr().String())
		return err != nil
	})
}

func TestAConfigurationThatDoesNotComeUpChangesNothing(t *testing.T) {
	t.Parallel()
	cms, server := upstreamtest.New(t), redistest.Start(t)
	environ := []string{"VITRINE_UPSTREAM_URL=" + cms.URL, "VITRINE_REDIS_URL=" + server.URL(), "VITRINE_UPSTREAM_RETRIES=0"}
	log := new(testkit.Buffer)
	vitrine := startWith(t, settings(t, environ...), log)
	vitrine.allAnswer(t, "hit")
	before := vitrine.present.Load()
	for name, wrong := range map[string]string{
		"an address in use":               "VITRINE_LISTEN=" + server.Addr,
		"a Redis and a CMS that are away": "VITRINE_REDIS_URL=redis://" + freeAddress(t),
	} {
		if strings.Contains(wrong, "REDIS") {
			cms.Down()
		}
		if err := vitrine.reload(settings(t, append(environ, wrong, "VITRINE_STALE_IF_ERROR=1h", "VITRINE_HOOK_SECRET=open-sesame")...)); err == nil {
			t.Errorf("%s: reloaded", name)
		}
		if vitrine.present.Load() != before {
			t.Errorf("%s: in effect", name)
		}
		if got := vitrine.get(t, shape.Banners).Header.Get("Cache-Control"); !strings.Contains(got, "stale-if-error=86") {
			t.Errorf("%s: Cache-Control: %s", name, got)
		}
	}
	if text := log.String(); strings.Contains(text, "nothing is held") || !strings.Contains(text, `serving="the copy held, which is fresh"`) {
		t.Errorf("the copy that stays in service is not told: %s", text)
	}
	// With Redis there, a CMS that is away is no reason to refuse.
	testkit.Must(t, vitrine.reload(settings(t, append(environ, "VITRINE_STALE_IF_ERROR=1h")...)))
	if got := vitrine.get(t, shape.Banners).Header.Get("Cache-Control"); !strings.Contains(got, "stale-if-error=3") {
		t.Errorf("Cache-Control: %s", got)
	}
}

// The second service has no copies where Redis is away, but those of its folder.
func TestWithoutRedisAReloadNeedsTheCMSOrAFolder(t *testing.T) {
	t.Parallel()
	for name, folder := range map[string]string{"neither": "", "a folder": t.TempDir()} {
		cms, server := upstreamtest.New(t), redistest.Start(t)
		cfg := settings(t, "VITRINE_UPSTREAM_URL="+cms.URL, "VITRINE_REDIS_URL="+server.URL(),
			"VITRINE_UPSTREAM_RETRIES=0", "VITRINE_LAST_GOOD="+folder)
		vitrine := startWith(t, cfg, io.Discard)
		vitrine.allAnswer(t, "hit")
		server.Kill()
		testkit.Must(t, vitrine.reload(cfg))
		cms.Down()
		if err := vitrine.reload(cfg); (err == nil) != (folder != "") {
			t.Errorf("%s: %v", name, err)
		}
		vitrine.allAnswer(t, "hit")
	}
}

// reloadBusy reloads, with stale-if-error=25200, until the next service answers. The one before may
// still have requests.
func (r running) reloadBusy(t *testing.T, cfg config.Config) (reloaded <-chan error) {
	t.Helper()
	done := make(chan error, 1)
	cfg.StaleIfError = 7 * time.Hour
	go func() { done <- r.reload(cfg) }()
	testkit.Eventually(t, "the next service answers", func() bool {
		return strings.HasSuffix(r.get(t, shape.Banners).Header.Get("Cache-Control"), "stale-if-error=25200")
	})
	return done
}

// begin sends a request for the banners without its one byte of content, and returns once the
// server waits for that.
func begin(t *testing.T, conn net.Conn) *bufio.Reader {
	t.Helper()
	_, err := io.WriteString(conn, "GET /gvapp/singlebanner HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
	testkit.Must(t, err)
	from := bufio.NewReader(conn)
	for _, want := range []string{"HTTP/1.1 100 Continue\r\n", "\r\n"} {
		if line, err := from.ReadString('\n'); err != nil || line != want {
			t.Fatalf("%q, %v", line, err)
		}
	}
	return from
}

// A request that takes longer than shutdown.timeout is answered across a reload, and its connection
// is not left with the service that has ended.
func TestAConnectionThatIsBusyAcrossAReloadStaysWithNoServiceThatEnded(t *testing.T) {
	t.Parallel()
	cms := upstreamtest.New(t)
	environ := []string{"VITRINE_UPSTREAM_URL=" + cms.URL, "VITRINE_SHUTDOWN_TIMEOUT=50ms"}
	cfg := settings(t, environ...)
	vitrine := startWith(t, cfg, t.Output())
	vitrine.allAnswer(t, "hit")
	conn := testkit.Dial(t, "tcp", vitrine.public.Addr().String())
	from := begin(t, conn)
	reloaded := vitrine.reloadBusy(t, cfg)
	select {
	case err := <-reloaded:
		t.Fatalf("the service before ended with a request under way: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	for i, sent := range []string{"x", "GET /gvapp/singlebanner HTTP/1.1\r\nHost: x\r\n\r\n"} {
		testkit.Write(t, conn, sent)
		response, err := http.ReadResponse(from, nil) //nolint:bodyclose // the connection is closed
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		_, err = io.Copy(io.Discard, response.Body)
		testkit.Must(t, err)
		if got := response.Header.Get("Cache-Control"); i > 0 && !strings.HasSuffix(got, "stale-if-error=25200") {
			t.Errorf("request %d is answered by the service before: %s", i, got)
		}
		if i == 0 {
			testkit.Must(t, testkit.Receive(t, reloaded)) // the connection is between two requests
		}
	}
}

// When vitrine ends, nobody is left to take the connections of the service before.
func TestARequestAcrossAReloadAndAnEndIsTheLastOfItsConnection(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	vitrine := startWith(t, cfg, t.Output())
	vitrine.allAnswer(t, "hit")
	conn := testkit.Dial(t, "tcp", vitrine.public.Addr().String())
	from := begin(t, conn)
	vitrine.reloadBusy(t, cfg)
	stopped := make(chan error, 1)
	go func() { stopped <- vitrine.stop() }()
	testkit.Receive(t, vitrine.present.Load().running.Done()) // that service has no requests, and so ends at once
	testkit.Write(t, conn, "x")
	response, err := http.ReadResponse(from, nil)
	testkit.Must(t, err)
	if _, err := io.Copy(io.Discard, response.Body); err != nil || !response.Close {
		t.Errorf("%v, %v, closes: %t", response.Header, err, response.Close)
	}
	testkit.Check(t, errors.Join(response.Body.Close(), testkit.Receive(t, stopped)))
}

func TestTheHostOfAnAddressCanBeReloadedAlone(t *testing.T) {
	t.Parallel()
	_, port, err := net.SplitHostPort(freeAddress(t))
	testkit.Must(t, err)
	vitrine := start(t, "VITRINE_LISTEN=:"+port)
	for _, host := range []string{"127.0.0.1", "127.0.0.2", ""} {
		testkit.Must(t, vitrine.reload(settings(t, "VITRINE_LISTEN="+host+":"+port)))
		if host == "" {
			host = "127.0.0.3"
		}
		if err := isWellAt("http://" + host + ":" + port + shape.Banners.Route()); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
		_ = l.Close()
		t.Error("another listener could join")
	}
}

func TestHangupsWhileTheServiceBeforeHasRequestsCountAsOne(t *testing.T) {
	t.Parallel()
	cms, log := upstreamtest.New(t), new(testkit.Buffer)
	cfg := settings(t, "VITRINE_UPSTREAM_URL="+cms.URL)
	var loads atomic.Int64
	ended, asked := make(chan error, 1), make(chan os.Signal)
	p, err := begun(t, cfg, Options{
		Stdout: t.Output(), Stderr: io.MultiWriter(log, t.Output()), Hangups: asked, Reload: func() (config.Config, error) {
			if loads.Add(1) == 2 {
				cms.Block()
				cfg.Redis.Prefix = "other:" // has no copies
			}
			return cfg, nil
		},
	})
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	first := p.present.Load()
	go func() { ended <- p.run(ctx) }()
	conn := testkit.Dial(t, "tcp", first.public.Addr().String())
	begin(t, conn)
	for range 4 {
		asked <- syscall.SIGHUP
	}
	if n := loads.Load(); n != 1 {
		t.Errorf("loaded %d times with a request under way", n)
	}
	testkit.Write(t, conn, "x")
	cms.WaitCount(shape.Banners, 2) // by the reload that waits
	cancel()
	testkit.Check(t, testkit.Receive(t, ended))
	if n := loads.Load(); n != 2 {
		t.Errorf("loaded %d times for four hangups, of which three came at once", n)
	}
	if strings.Contains(log.String(), "not reloaded") {
		t.Error("an end during a reload is told as its failure")
	}
}
