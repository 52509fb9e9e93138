package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/config"
	"vitrine/proxy/operator"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

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

// start starts the real thing with the given settings.
func start(t *testing.T, environ ...string) running {
	t.Helper()
	return startWith(t, settings(t, environ...), t.Output())
}

// startWith starts the real thing, which logs to w.
func startWith(t *testing.T, cfg config.Config, w io.Writer) running {
	t.Helper()
	log := new(testkit.Buffer)
	p, err := newProcess(t.Context(), cfg.Log, t.Output(), io.MultiWriter(log, w))
	if err == nil {
		err = p.begin(t.Context(), cfg)
	}
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended, asked, next := make(chan error, 1), make(chan os.Signal), make(chan config.Config, 1)
	go func() { ended <- p.run(ctx, asked, func() (config.Config, error) { return <-next, nil }) }()
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
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return r
}

// answer is what a visitor got.
type answer struct {
	status      int
	cacheStatus string
	body        string
	header      http.Header
}

// ask sends a GET.
func ask(client *http.Client, url string) (answer, error) {
	response, err := client.Get(url)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header.Get("Cache-Status"), string(body), response.Header}, err
}

// get asks for a route.
func (r running) get(t *testing.T, resource shape.Resource) answer {
	t.Helper()
	got, err := ask(http.DefaultClient, "http://"+r.public.Addr().String()+resource.Route())
	testkit.Must(t, err)
	return got
}

// isWellAt wants 200.
func isWellAt(url string) error {
	got, err := ask(http.DefaultClient, url)
	if err == nil && got.status != http.StatusOK {
		err = fmt.Errorf("status %d", got.status)
	}
	return err
}

// allAnswer asks for all three routes until each answer's Cache-Status has what is wanted, and
// never accepts anything but 200 on the way.
func (r running) allAnswer(t *testing.T, want string) {
	t.Helper()
	for _, resource := range shape.Resources() {
		testkit.Must(t, testkit.Retry(func() error {
			got := r.get(t, resource)
			if got.status != http.StatusOK {
				t.Fatalf("%s: status %d, want 200 throughout: %s", resource, got.status, got.body)
			}
			if !strings.Contains(got.cacheStatus, want) {
				return fmt.Errorf("%s: Cache-Status %q, want %s in it", resource, got.cacheStatus, want)
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

func TestStatusTellsWhatIsHeldAndHowItWasFetched(t *testing.T) {
	t.Parallel()
	cms := upstreamtest.New(t)
	cms.Set(shape.Banners, `[{"id":"x"}]`)
	vitrine := start(t, "VITRINE_UPSTREAM_URL="+cms.URL)
	var told operator.Status
	testkit.Must(t, testkit.Retry(func() error {
		told = vitrine.status()
		if told.Resources[shape.Banners].LastFetch == nil || told.Resources[shape.Rules].Held == nil {
			return errors.New("not fetched yet")
		}
		return nil
	}))
	banners, rules := told.Resources[shape.Banners], told.Resources[shape.Rules]
	if banners.Held != nil || !strings.Contains(banners.LastFetch.Error, `banners[0].id: want`) {
		t.Errorf("banners, which were refused: %+v", banners)
	}
	if rules.Held.Bytes == 0 || rules.LastFetch.Status != 200 || rules.Error != "" {
		t.Errorf("rules, which are held: %+v", rules)
	}
}
