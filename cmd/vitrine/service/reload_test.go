package service

import (
	"bufio"
	"context"
	"crypto/tls"
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
	"vitrine/cmd/testkit"
	"vitrine/config"
	"vitrine/proxy/listen/listentest"
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
	_, err := vitrine.present.Load().store.Purge(t.Context(), "banners", false, "") // that of before is closed
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

func TestWhatNeedsARestartIsNamedInOneWarningAndTheRestIsReloaded(t *testing.T) {
	t.Parallel()
	log := new(testkit.Buffer)
	vitrine := startWith(t, settings(t, "VITRINE_ADMIN_TOKEN=a-token-of-the-owner"), log)
	vitrine.allAnswer(t, "hit")
	testkit.Must(t, vitrine.reload(settings(t, "VITRINE_LISTEN="+freeAddress(t), "VITRINE_ADMIN_LISTEN="+freeAddress(t),
		"VITRINE_REDIS_PREFIX=other:", "VITRINE_STALE_IF_ERROR=7h", "VITRINE_LIMITS_TARGET=256")))
	got, err := testkit.Ask(http.DefaultClient, "http://"+vitrine.public.Addr().String()+shape.Banners.Route()+"?"+strings.Repeat("x", 300))
	if err != nil || got.Status != http.StatusOK || !strings.HasSuffix(got.Header.Get("Cache-Control"), "stale-if-error=25200") {
		t.Errorf("%d %v, %v", got.Status, got.Header, err)
	}
	if got := vitrine.present.Load().store.Prefix(); got != "other:" {
		t.Errorf("the prefix is %s", got)
	}
	const warning = `msg="these settings change at a restart" settings="listen admin.listen admin.token limits.target"`
	if n := strings.Count(log.String(), "at a restart"); n != 1 || !strings.Contains(log.String(), warning) {
		t.Errorf("want once %s in\n%s", warning, log)
	}
	got, err = testkit.Ask(http.DefaultClient, "http://"+vitrine.operator.Addr().String()+"/metrics")
	if err != nil || got.Status != http.StatusUnauthorized { // with the address stays who may ask at it
		t.Errorf("%d, %v", got.Status, err)
	}
}

func TestTheCertificateIsReadAgainAtAReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name string) {
		t.Helper()
		cert, key, err := listentest.Certificate(name)
		testkit.Must(t, err)
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "crt"), cert, 0o600))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "key"), key, 0o600))
	}
	put("first")
	cfg := settings(t, "VITRINE_TLS_CERT_FILE="+filepath.Join(dir, "crt"), "VITRINE_TLS_KEY_FILE="+filepath.Join(dir, "key"))
	vitrine := startWith(t, cfg, t.Output())
	name := func() string {
		t.Helper()
		conn := tls.Client(testkit.Dial(t, "tcp", vitrine.public.Addr().String()), &tls.Config{InsecureSkipVerify: true})
		testkit.Must(t, conn.HandshakeContext(t.Context()))
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "crt"), []byte("no certificate"), 0o600))
	if err := vitrine.reload(cfg); err == nil || !strings.Contains(err.Error(), "TLS_CERT_FILE") {
		t.Errorf("%v", err)
	}
	if got := name(); got != "first" {
		t.Errorf("after a refused reload: %s", got)
	}
	put("second")
	testkit.Must(t, vitrine.reload(cfg))
	if got := name(); got != "second" {
		t.Errorf("after a reload: %s", got)
	}
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
		"an address in use":               "VITRINE_REDIS_URL=embedded:" + server.Addr,
		"a Redis and a CMS that are away": "VITRINE_REDIS_URL=redis://" + freeAddress(t),
	} {
		if strings.Contains(wrong, "redis://") {
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
	if text := log.String(); strings.Contains(text, "nothing is cached") || !strings.Contains(text, `serving="the cached copy, which is fresh"`) {
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

// A request that waits for the CMS is answered by the service that has it.
func TestARequestUnderWayIsAnsweredByTheServiceBefore(t *testing.T) {
	t.Parallel()
	cms := upstreamtest.New(t)
	cms.Set(shape.Banners, "[]")
	environ := []string{"VITRINE_UPSTREAM_URL=" + cms.URL}
	vitrine := startWith(t, settings(t, environ...), t.Output())
	vitrine.allAnswer(t, "hit")
	var fetches atomic.Int64
	release := make(chan struct{})
	fetched := cms.Count(shape.Banners)
	cms.Handle(shape.Banners, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fetches.Add(1) == 1 {
			<-release
		}
		upstreamtest.JSON("[]").ServeHTTP(w, r)
	}))
	_, err := vitrine.store.Purge(t.Context(), "banners", false, "")
	testkit.Must(t, err)
	<-time.After(vitrine.cfg.Redis.PurgeBound)
	conn := testkit.Dial(t, "tcp", vitrine.public.Addr().String())
	from := bufio.NewReader(conn)
	const request = "GET /gvapp/singlebanner HTTP/1.1\r\nHost: x\r\n\r\n"
	testkit.Write(t, conn, request)
	cms.WaitCount(shape.Banners, fetched+1)
	reloaded := make(chan error, 1)
	go func() { // a store without copies
		reloaded <- vitrine.reload(settings(t, append(environ, "VITRINE_REDIS_PREFIX=other:", "VITRINE_STALE_IF_ERROR=7h")...))
	}()
	testkit.Eventually(t, "the next service", func() bool { return vitrine.present.Load() != vitrine.service })
	if vitrine.running.Err() != nil {
		t.Error("the service before has ended with a request under way")
	}
	close(release)
	for i, policy := range []string{"stale-if-error=86400", "stale-if-error=25200"} {
		if i > 0 {
			testkit.Write(t, conn, request)
		}
		response, err := http.ReadResponse(from, nil) //nolint:bodyclose // the connection is closed
		testkit.Must(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		if got := response.Header.Get("Cache-Control"); err != nil || response.StatusCode != http.StatusOK || !strings.HasSuffix(got, policy) {
			t.Errorf("request %d: %s %s, %v", i, response.Status, got, err)
		}
	}
	testkit.Must(t, testkit.Receive(t, reloaded))
}

// a visit asks for the banners on one connection, also in pieces, and wants them whole.
func visit(conn net.Conn, from *bufio.Reader, slowly bool) error {
	pieces := []string{"GET /gvapp/singlebanner HTTP/1.1\r\nHost: x\r\n\r\n"}
	if slowly {
		pieces = []string{pieces[0][:9], pieces[0][9:]}
	}
	for _, piece := range pieces {
		if _, err := io.WriteString(conn, piece); err != nil {
			return err
		}
		if slowly {
			<-time.After(30 * time.Millisecond)
		}
	}
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK || response.Close {
		return fmt.Errorf("%s, closes: %t, %w", response.Status, response.Close, err)
	}
	return response.Body.Close()
}

// Through reloads, each after a purge, 40 connections stay open with a CMS and clients that are
// slow, and every request is answered.
func TestReloadsFailNoRequestAndCloseNoConnection(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Handle(shape.Banners, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-time.After(20 * time.Millisecond)
		upstreamtest.JSON(`[]`).ServeHTTP(w, r)
	}))
	cfg := settings(t, "VITRINE_UPSTREAM_URL="+cms.URL, "VITRINE_LOG_LEVEL=error")
	vitrine := startWith(t, cfg, t.Output())
	vitrine.allAnswer(t, "hit")
	var done atomic.Bool
	var answered atomic.Int64
	var visitors sync.WaitGroup
	for i := range 40 {
		conn := testkit.Dial(t, "tcp", vitrine.public.Addr().String())
		testkit.Must(t, conn.SetDeadline(time.Time{}))
		visitors.Go(func() {
			for from := bufio.NewReader(conn); !done.Load(); answered.Add(1) {
				if err := visit(conn, from, i%4 == 0); err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
				<-time.After(5 * time.Millisecond)
			}
		})
	}
	for n := range 20 {
		_, err := vitrine.present.Load().store.Purge(t.Context(), "banners", false, "")
		testkit.Must(t, err)
		cfg.HTTP.MaxAge = time.Duration(n+1) * time.Second
		testkit.Must(t, vitrine.reload(cfg))
	}
	done.Store(true)
	visitors.Wait()
	t.Logf("%d requests were answered", answered.Load())
}

func TestHangupsWhileTheServiceBeforeHasRequestsCountAsOne(t *testing.T) {
	t.Parallel()
	cms, log := upstreamtest.New(t), new(testkit.Buffer)
	cfg := settings(t, "VITRINE_UPSTREAM_URL="+cms.URL)
	var loads atomic.Int64
	ended, asked := make(chan error, 1), make(chan os.Signal, 1)
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
	first.admin.Begin() // a request under way
	asked <- syscall.SIGHUP
	testkit.Eventually(t, "the next service", func() bool { return p.present.Load() != first })
	for range 3 {
		select { // as signals are sent
		case asked <- syscall.SIGHUP:
		default:
		}
	}
	if n := loads.Load(); n != 1 {
		t.Errorf("loaded %d times with a request under way", n)
	}
	first.admin.End()
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
