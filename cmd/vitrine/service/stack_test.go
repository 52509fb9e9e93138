package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/config"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestMain(m *testing.M) { os.Exit(testkit.Waiting{M: m, AtOnce: 4}.Run()) }

// running is a process that serves until the test ends, or stop is called.
type running struct {
	*service                                // the first one
	stop     func() error                   // asks it to stop, and returns when it has
	reload   func(next config.Config) error // as a SIGHUP would, and until the service before has ended
}

// settings loads the given ones, over free ports and an embedded store.
func settings(t *testing.T, environ ...string) config.Config {
	t.Helper()
	cfg, err := config.Load(config.Sources{Environ: append([]string{
		"VITRINE_LISTEN=127.0.0.1:0", "VITRINE_ADMIN_LISTEN=127.0.0.1:0", "VITRINE_REDIS_URL=embedded:127.0.0.1:0",
	}, environ...)})
	testkit.Must(t, err)
	return cfg
}

// begun is a process with its first service.
func begun(t *testing.T, cfg config.Config, o Options) (*process, error) {
	t.Helper()
	p := newProcess(o)
	return p, p.begin(t.Context(), cfg)
}

// start starts the real thing with the given settings.
func start(t *testing.T, environ ...string) running {
	t.Helper()
	return startWith(t, settings(t, environ...), t.Output())
}

// startWith starts the real thing, which logs to w.
func startWith(t *testing.T, cfg config.Config, w io.Writer) running {
	t.Helper()
	log := new(testkit.Buffer)
	ended, asked, next := make(chan error, 1), make(chan os.Signal), make(chan config.Config, 1)
	p, err := begun(t, cfg, Options{
		Version: "1.2.3", Stdout: t.Output(), Stderr: io.MultiWriter(log, w), Hangups: asked, Reload: func() (config.Config, error) { return <-next, nil },
	})
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- p.run(ctx) }()
	r := running{service: p.present.Load()}
	r.stop = func() error {
		cancel()
		err := testkit.Receive(t, ended)
		ended <- err // for whoever stops it again
		return err
	}
	const refused = "configuration not reloaded"
	r.reload = func(cfg config.Config) error {
		before, refusals := p.present.Load(), strings.Count(log.String(), refused)
		next <- cfg
		select {
		case asked <- syscall.SIGHUP:
		case <-ctx.Done():
			return ctx.Err()
		}
		var reloadErr error
		err := testkit.Retry(func() error {
			if text := log.String(); strings.Count(text, refused) > refusals {
				reloadErr = errors.New(text[strings.LastIndex(text, refused):])
			} else if p.present.Load() == before {
				return errors.New("nothing happens")
			} else if before.running.Err() == nil {
				return errors.New("the service before has requests still")
			}
			return nil
		})
		return errors.Join(err, reloadErr)
	}
	t.Cleanup(func() { testkit.Check(t, r.stop()) })
	return r
}

// get asks for a route.
func (r running) get(t *testing.T, resource shape.Resource) testkit.Answer {
	t.Helper()
	got, err := testkit.Ask(http.DefaultClient, "http://"+r.public.Addr().String()+resource.Route())
	testkit.Must(t, err)
	return got
}

// allAnswer asks for all three routes until each answer's Cache-Status has what is wanted, and
// never accepts anything but 200 on the way.
func (r running) allAnswer(t *testing.T, want string) {
	t.Helper()
	for _, resource := range shape.Resources() {
		testkit.Must(t, testkit.Retry(func() error {
			got := r.get(t, resource)
			if got.Status != http.StatusOK {
				t.Fatalf("%s: status %d, want 200 throughout: %s", resource, got.Status, got.Body)
			}
			if !strings.Contains(got.Header.Get("Cache-Status"), want) {
				return fmt.Errorf("%s: Cache-Status %q, want %s in it", resource, got.Header.Get("Cache-Status"), want)
			}
			return nil
		}))
	}
}

// freeAddress is one that can be listened on again after it was given up.
func freeAddress(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
}

// underWay starts the real thing, and a request that waits for the CMS until it is released. The
// request comes after a purge, since the start asks the CMS as well.
func underWay(t *testing.T, environ ...string) (vitrine running, release func(), answered <-chan string) {
	t.Helper()
	cms := upstreamtest.New(t)
	vitrine = start(t, append(environ, "VITRINE_UPSTREAM_URL="+cms.URL)...)
	ask := func() string {
		got, err := testkit.Ask(http.DefaultClient, "http://"+vitrine.public.Addr().String()+shape.Banners.Route())
		return fmt.Sprint(got.Status, err)
	}
	if got := ask(); got != "200 <nil>" {
		t.Fatal(got)
	}
	release = cms.Block()
	t.Cleanup(release)
	_, err := vitrine.store.Purge(t.Context(), "banners", false, "somebody@host")
	testkit.Must(t, err)
	<-time.After(vitrine.cfg.Redis.PurgeBound)
	answer := make(chan string, 1)
	go func() { answer <- ask() }()
	cms.WaitCount(shape.Banners, 2)
	return vitrine, release, answer
}

func TestRequestsUnderWayAreAnsweredWholeWhenItStops(t *testing.T) {
	vitrine, release, answered := underWay(t)
	ready := "http://" + vitrine.operator.Addr().String() + "/readyz"
	stopped := make(chan error, 1)
	go func() { stopped <- vitrine.stop() }()
	// Draining is told while the request is under way, or was before anybody could ask: then the
	// address is closed already.
	testkit.Eventually(t, "it is not ready", func() bool {
		got, err := testkit.Ask(http.DefaultClient, ready)
		return err != nil || got.Status == http.StatusServiceUnavailable
	})
	release()
	if got := testkit.Receive(t, answered); got != "200 <nil>" {
		t.Errorf("the request under way got %s", got)
	}
	testkit.Check(t, testkit.Receive(t, stopped))
}

func TestRequestsThatDoNotFinishInTimeAreCutOff(t *testing.T) {
	vitrine, _, answered := underWay(t, "VITRINE_SHUTDOWN_TIMEOUT=50ms")
	began := time.Now()
	testkit.Check(t, vitrine.stop())
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopping took %v", took)
	}
	if got := testkit.Receive(t, answered); strings.HasPrefix(got, "200") {
		t.Errorf("it was answered: %s", got)
	}
}

func TestAFailedStartLeavesNothingOpen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer taken.Close()
	public := freeAddress(t)
	cfg, err := config.Load(config.Sources{Environ: []string{
		"VITRINE_LISTEN=" + public, "VITRINE_ADMIN_LISTEN=", "VITRINE_REDIS_URL=embedded:" + taken.Addr().String(),
	}})
	testkit.Must(t, err)
	if _, err := begun(t, cfg, Options{Stdout: io.Discard, Stderr: io.Discard}); err == nil {
		t.Fatal("an address that is in use was opened")
	}
	again, err := net.Listen("tcp", public)
	if err != nil {
		t.Fatalf("the public address is still held: %v", err)
	}
	_ = again.Close()
}
