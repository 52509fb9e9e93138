package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vitrine/cmd/testkit"
	"vitrine/config"
	"vitrine/config/source"
	"vitrine/upstream/exchange"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testkit.Waiting{M: m, AtOnce: 8}) }

// newClient makes a client of cms that retries at once. change may be nil.
func newClient(t *testing.T, url string, change func(*options)) *Client {
	t.Helper()
	o := options{Options: Options{URL: url, Options: exchange.Options{Retries: 2, RetryWait: time.Millisecond, MaxRetryWait: 2 * time.Millisecond}}}
	if change != nil {
		change(&o)
	}
	c, err := New(o.complete(t))
	testkit.Must(t, err)
	t.Cleanup(c.Close)
	return c
}

// options are Options over a preset.
type options struct {
	Options
	Preset string // empty means drf
}

// complete puts what the options leave out in from the preset, as package config does.
func (o options) complete(t testing.TB) Options {
	t.Helper()
	preset := o.Preset
	if preset == "custom" { // which has nothing, and is refused without parts
		preset = ""
	}
	c, err := config.Load(config.Sources{Environ: []string{"VITRINE_UPSTREAM_PRESET=" + preset}})
	testkit.Must(t, err)
	if preset != o.Preset {
		c.Upstream.Shared, c.Upstream.Resources = source.Shared{}, config.ByResource[source.Resource]{}
	}
	overlay(&c.Upstream.Shared, o.Shared)
	o.Shared, o.Timeout, o.MaxBytes = c.Upstream.Shared, cmp.Or(o.Timeout, c.Upstream.Timeout), cmp.Or(o.MaxBytes, int64(c.Upstream.MaxBytes))
	given, resources := o.Resources, make(map[shape.Resource]source.Resource)
	for _, r := range shape.Resources() {
		resources[r] = c.Upstream.Resources.Of(string(r))
	}
	o.Resources = resources
	for r, own := range given {
		preset := resources[r]
		if own.Path != "" {
			own.Parts, own.Path = []source.Part{{Path: own.Path}}, ""
		}
		for i, p := range own.Parts {
			for _, known := range preset.Parts {
				if known.Name == p.Name {
					overlay(&known, p)
					own.Parts[i] = known
				}
			}
		}
		overlay(&preset, own)
		o.Resources[r] = preset
	}
	return o.Options
}

// overlay sets the fields of to that over has.
func overlay[T any](to *T, over T) {
	for i := range reflect.TypeFor[T]().NumField() {
		if field := reflect.ValueOf(over).Field(i); !field.IsZero() {
			reflect.ValueOf(to).Elem().Field(i).Set(field)
		}
	}
}

// roundTrip is a CMS without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// jsonCMS is one that sends a status and JSON.
func jsonCMS(answer func(*http.Request) (status int, body string)) roundTrip {
	return func(req *http.Request) (*http.Response, error) {
		status, body := answer(req)
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(body)),
			Body: io.NopCloser(strings.NewReader(body)), Request: req,
		}, nil
	}
}

// bannersAlone are the resources of a CMS with nothing but banners, in one part.
func bannersAlone(p source.Part) map[shape.Resource]source.Resource {
	return map[shape.Resource]source.Resource{
		shape.Catalogue: {Empty: true}, shape.Rules: {Empty: true}, shape.Banners: {Parts: []source.Part{p}},
	}
}

// mustFetch fetches r with nothing held.
func mustFetch(t *testing.T, c *Client, r shape.Resource) Result {
	t.Helper()
	got, err := c.Fetch(t.Context(), r, Held{})
	testkit.Must(t, err)
	return got
}

// wantError holds err against the sentinel it must be, and no other, and the end of its text.
func wantError(t *testing.T, err, kind error, suffix string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want … %s", suffix)
	}
	for _, sentinel := range []error{ErrUnreachable, ErrTimeout, ErrAnswer, ErrOpen} {
		if is := errors.Is(err, sentinel); is != errors.Is(kind, sentinel) {
			t.Errorf("%v: is %q: %t", err, sentinel, is)
		}
	}
	if !strings.HasSuffix(err.Error(), suffix) {
		t.Errorf("got  %v\nwant … %s", err, suffix)
	}
}

// wantRefused holds err against the refusal it must carry.
func wantRefused(t *testing.T, err error) {
	t.Helper()
	refused, ok := errors.AsType[*shape.RefusedError](err)
	if !ok || refused.Path == "" || !errors.Is(err, shape.ErrRefused) {
		t.Errorf("%v: carries no refusal with a path", err)
	}
}

// normalized is what the recorded answer name becomes.
func normalized(t *testing.T, r shape.Resource, name string) []byte {
	t.Helper()
	_, body, ok := bytes.Cut(upstreamtest.Recording(t, name), []byte("\r\n\r\n"))
	if !ok {
		t.Fatalf("%s has no body", name)
	}
	doc, err := shape.Normalize(r, body)
	testkit.Must(t, err)
	return doc.Body
}

// logTo is a logger whose lines can be read.
func logTo(w *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// onLog is a log handler that does something at every line.
type onLog struct{ do func() }

func (onLog) Enabled(context.Context, slog.Level) bool    { return true }
func (h onLog) Handle(context.Context, slog.Record) error { h.do(); return nil }
func (h onLog) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h onLog) WithGroup(string) slog.Handler             { return h }

// newTLS starts an https server with a certificate that only its own Client trusts.
func newTLS(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}
