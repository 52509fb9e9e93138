package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/config/source"
	"vitrine/upstream/exchange"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestPassingFailureIsRetried(t *testing.T) {
	cms := upstreamtest.New(t)
	var logged bytes.Buffer
	client := newClient(t, cms.URL, func(o *options) { o.Logger = logTo(&logged) })
	cms.FailNext(1, 502)
	cms.Next(upstreamtest.Truncated(`[{"id":1}]`, 4))
	got := mustFetch(t, client, shape.Banners)
	if got.Attempts != 3 || cms.Count(shape.Banners) != 3 {
		t.Errorf("%d attempts, %d requests, want 3", got.Attempts, cms.Count(shape.Banners))
	}
	if !bytes.Equal(got.Document.Body, normalized(t, shape.Banners, "singlebanner-get")) {
		t.Error("not the document of the last attempt")
	}
	for _, want := range []string{"resource=banners attempt=1", `error="status 502"`, "attempt=2", "cut short"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("log lacks %q:\n%s", want, &logged)
		}
	}
}

// TestRetriesAreBounded by their number, and by the time that is left: a wait that does not fit is not
// begun.
func TestRetriesAreBounded(t *testing.T) {
	for _, c := range []struct {
		status, retries, attempts int
		field, says               string
		preset                    string
		wait, asked               time.Duration
	}{
		{status: 503, retries: 0, attempts: 1},
		{status: 503, retries: 1, attempts: 2},
		{status: 503, retries: 4, attempts: 5},
		{status: 500, retries: 2, attempts: 1, wait: time.Minute},
		{status: 429, retries: 2, attempts: 1, field: "Retry-After", says: "3600", asked: time.Hour},
		{status: 503, retries: 2, attempts: 1, field: "Retry-After", says: "3600", asked: time.Hour},
		{status: 429, retries: 2, attempts: 1, field: "X-Contentful-RateLimit-Reset", says: "3600", asked: time.Hour, preset: "contentful"},
	} {
		cms := upstreamtest.New(t)
		cms.Fail(c.status, c.field, c.says)
		client := newClient(t, cms.URL, func(o *options) {
			o.Preset, o.Retries, o.Timeout = c.preset, c.retries, 5*time.Second
			o.RetryWait, o.MaxRetryWait = max(c.wait, time.Millisecond), max(c.wait, 2*time.Millisecond)
		})
		got, err := client.Fetch(t.Context(), shape.Banners, Held{})
		wantError(t, err, ErrAnswer, fmt.Sprintf("status %d", c.status))
		if n := len(cms.Requests()); n != c.attempts || got.Attempts != n || exchange.RetryAfter(err) != c.asked {
			t.Errorf("%+v: %d requests, %d attempts, asked for %v", c, n, got.Attempts, exchange.RetryAfter(err))
		}
	}
	t.Run("a wait that fits", func(t *testing.T) {
		t.Parallel()
		cms := upstreamtest.New(t)
		cms.FailNext(1, 503, "Retry-After", "1")
		if got := mustFetch(t, newClient(t, cms.URL, nil), shape.Banners); got.Attempts != 2 || got.Duration < time.Second {
			t.Errorf("%d attempts in %v, want 2 in a second or more", got.Attempts, got.Duration)
		}
	})
}

func TestUnreachableIsRetriedAndSaysSo(t *testing.T) {
	cms := upstreamtest.New(t)
	client := newClient(t, cms.URL, nil)
	cms.Down()
	got, err := client.Fetch(t.Context(), shape.Catalogue, Held{})
	wantError(t, err, ErrUnreachable, "connection refused")
	if n := strings.Count(err.Error(), cms.URL); got.Attempts != 3 || n != 1 {
		t.Errorf("%v: %d attempts, names the URL %d times", err, got.Attempts, n)
	}
	cms.Up()
	mustFetch(t, client, shape.Catalogue)
}

// TestTimeoutIsOverTheWholeFetch has one that runs out in the first attempt, in a later one, in one of
// several parts, and before the caller's.
func TestTimeoutIsOverTheWholeFetch(t *testing.T) {
	hang := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	for name, c := range map[string]struct {
		resource shape.Resource
		before   []http.Handler
		caller   time.Duration
		says     string
	}{
		"at once":             {shape.Banners, nil, time.Minute, "/gvapp/singlebanner: no complete response within 1s"},
		"after a failure":     {shape.Banners, []http.Handler{upstreamtest.Status(502)}, time.Minute, "no complete response within 1s (previous attempt: status 502)"},
		"of parts":            {shape.Catalogue, nil, time.Minute, "no complete response within 1s"},
		"the caller's, first": {shape.Banners, nil, 50 * time.Millisecond, "no complete response before the caller's deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cms := upstreamtest.New(t)
			for _, path := range []string{"/artists", "/artworks", "/galleries"} {
				cms.HandlePath(path, hang)
			}
			cms.Handle(shape.Banners, hang)
			cms.Next(c.before...)
			client := newClient(t, cms.URL, func(o *options) {
				o.Timeout, o.Resources = time.Second, map[shape.Resource]source.Resource{shape.Catalogue: threeLists}
			})
			ctx, cancel := context.WithTimeout(t.Context(), c.caller)
			defer cancel()
			got, err := client.Fetch(ctx, c.resource, Held{})
			wantError(t, err, ErrTimeout, c.says)
			if got.Duration > 10*time.Second {
				t.Errorf("it took %v", got.Duration)
			}
		})
	}
}

func TestAProgramThatTheTimeEndsIsATimeout(t *testing.T) {
	cms := upstreamtest.New(t)
	for key, part := range map[string]source.Part{
		"parts[0].map": {Map: "until(false; .)"}, "parts[0].items": {Items: "until(false; .)"},
	} {
		client := newClient(t, cms.URL, func(o *options) {
			o.Timeout = 200 * time.Millisecond
			o.Resources = map[shape.Resource]source.Resource{shape.Banners: {Parts: []source.Part{part}}}
		})
		_, err := client.Fetch(t.Context(), shape.Banners, Held{})
		wantError(t, err, ErrTimeout, "upstream.resources.banners."+key+": context deadline exceeded")
		if errors.Is(err, shape.ErrRefused) || client.Breaker().Failures != 1 {
			t.Errorf("%s: %v is a refusal, or no failure: %+v", key, err, client.Breaker())
		}
	}
}

func TestCancellingIsNoFailureOfTheUpstream(t *testing.T) {
	cms := upstreamtest.New(t)
	client := newClient(t, cms.URL, nil)

	t.Run("while the CMS thinks", func(t *testing.T) {
		release := cms.Block()
		defer release()
		before := cms.Count(shape.Banners)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := client.Fetch(ctx, shape.Banners, Held{})
			failed <- err
		}()
		cms.WaitCount(shape.Banners, before+1)
		cancel()
		wantCancelled(t, testkit.Receive(t, failed))
	})
	t.Run("while waiting for a retry", func(t *testing.T) {
		cms.FailNext(1, 503)
		ctx, cancel := context.WithCancel(t.Context())
		slow := newClient(t, cms.URL, func(o *options) {
			o.Timeout, o.RetryWait, o.MaxRetryWait = time.Hour, time.Minute, time.Minute
			o.Logger = slog.New(onLog{cancel}) // told of the wait just before it begins
		})
		_, err := slow.Fetch(ctx, shape.Banners, Held{})
		wantCancelled(t, err)
	})
	t.Run("before it began", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, url := range []string{cms.URL, "sample:"} {
			_, err := newClient(t, url, nil).Fetch(ctx, shape.Banners, Held{})
			wantCancelled(t, err)
		}
	})
}

func wantCancelled(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) || Code(err) != "" {
		t.Errorf("%v, code %q: want a cancellation and no code", err, Code(err))
	}
}

func TestWhatTLSRefusesIsNotRetried(t *testing.T) {
	for url, suffix := range map[string]string{
		newTLS(t, upstreamtest.JSON("[]")).URL:                         "certificate signed by unknown authority",
		strings.Replace(upstreamtest.New(t).URL, "http:", "https:", 1): "",
	} {
		got, err := newClient(t, url, nil).Fetch(t.Context(), shape.Banners, Held{})
		wantError(t, err, ErrUnreachable, suffix)
		if got.Attempts != 1 {
			t.Errorf("%v: %d attempts, want 1", err, got.Attempts)
		}
	}
}

func TestCodeAndFromCodeAreInverse(t *testing.T) {
	for _, sentinel := range []error{ErrUnreachable, ErrTimeout, ErrAnswer} {
		code := Code(fmt.Errorf("at noon: %w", &exchange.Error{Op: "GET x", Kind: sentinel, Err: errors.New("y")}))
		back := FromCode(code)
		if code == "" || !errors.Is(back, sentinel) || Code(back) != code {
			t.Errorf("%v: code %q, back %v", sentinel, code, back)
		}
	}
	if got := FromCode("overgrown"); !errors.Is(got, ErrUnreachable) {
		t.Errorf("an unknown code: %v", got)
	}
}

// TestNoErrorOrSuspicionHasASecretThatTheCMSRepeats has answers with an API key in a link, in the
// place of an id, where a program fails, and in an error, and a request that the error quotes.
func TestNoErrorOrSuspicionHasASecretThatTheCMSRepeats(t *testing.T) {
	const secret = "hunter2-0123456789-0123456789-0123456789-0123456789"
	for _, answer := range []struct {
		status             int
		body, items, style string
	}{
		{200, `{"results":[{%s}],"next":"?api_key=KEY"}`, ".results", ""},
		{200, `{"results":[{"id":"KEY"}]}`, ".results", ""},
		{200, `{"results":[{%s}]}`, ".results", source.PagingPage},
		{200, `{"results":"KEY"}`, ".results | map(.)", ""},
		{200, `{"results":"KEY"}`, ".results | error", ""},
		{403, `{"error":{"name":"KEY","message":"KEY is wrong"}}`, ".results", ""},
		{503, `{"error":{"name":"KEY","message":"KEY is wrong"}}`, ".results", ""},
	} {
		var log bytes.Buffer
		client := newClient(t, "http://cms", func(o *options) {
			o.Preset, o.Shared.Secrets, o.Logger = "custom", []string{secret}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			o.Transport = jsonCMS(func(*http.Request) (int, string) {
				return answer.status, strings.ReplaceAll(strings.Replace(answer.body, "%s", bannerOf(1, "a"), 1), "KEY", secret)
			})
			o.Resources = bannersAlone(source.Part{Path: "banners", Items: answer.items, Query: url.Values{"k": {secret}}, Paging: source.Paging{Style: answer.style, Param: "page"}})
		})
		got, err := client.Fetch(t.Context(), shape.Banners, Held{})
		explained, failed := client.Explain(t.Context(), shape.Banners)
		shown := fmt.Sprint(err, got.Warnings, failed, log.String())
		for _, e := range explained {
			shown += e.Error
		}
		if status, ok := errors.AsType[*StatusError](err); ok {
			shown += status.Said
		}
		if refused, ok := errors.AsType[*shape.RefusedError](err); ok {
			shown += refused.Got
		}
		if err == nil && len(got.Warnings) == 0 || strings.Contains(shown, "hunter") {
			t.Errorf("%s: %s", answer.body, shown)
		}
	}
}
