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

func TestRetriesAreBounded(t *testing.T) {
	for _, retries := range []int{0, 1, 4} {
		cms := upstreamtest.New(t)
		cms.Fail(503)
		client := newClient(t, cms.URL, func(o *options) { o.Retries = retries })
		got, err := client.Fetch(t.Context(), shape.Rules, Held{})
		wantError(t, err, ErrAnswer, "fetch rules: GET "+cms.URL+"/cms/rules/: status 503")
		if n := cms.Count(shape.Rules); n != retries+1 || got.Attempts != n {
			t.Errorf("%d retries: %d requests, %d attempts", retries, n, got.Attempts)
		}
	}
}

func TestRetryAfterThatDoesNotFitIsReportedAtOnce(t *testing.T) {
	for _, status := range []int{429, 503} {
		cms := upstreamtest.New(t)
		cms.Fail(status, "Retry-After", "3600")
		got, err := newClient(t, cms.URL, nil).Fetch(t.Context(), shape.Banners, Held{})
		wantError(t, err, ErrAnswer, fmt.Sprintf("status %d", status))
		if exchange.RetryAfter(err) != time.Hour {
			t.Errorf("%v carries %v, want 1h", err, exchange.RetryAfter(err))
		}
		if got.Attempts != 1 {
			t.Errorf("status %d: %d attempts, want 1", status, got.Attempts)
		}
	}
}

func TestRetryAfterThatFitsIsWaitedFor(t *testing.T) {
	t.Parallel()
	cms := upstreamtest.New(t)
	cms.FailNext(1, 503, "Retry-After", "1")
	got := mustFetch(t, newClient(t, cms.URL, nil), shape.Banners)
	if got.Attempts != 2 || got.Duration < time.Second {
		t.Errorf("%d attempts in %v, want 2 in a second or more", got.Attempts, got.Duration)
	}
}

func TestWaitThatDoesNotFitIsNotBegun(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Fail(500)
	client := newClient(t, cms.URL, func(o *options) {
		o.Timeout, o.RetryWait, o.MaxRetryWait = 5*time.Second, time.Minute, time.Minute
	})
	got, err := client.Fetch(t.Context(), shape.Banners, Held{})
	wantError(t, err, ErrAnswer, "status 500")
	if got.Attempts != 1 || got.Duration > 4*time.Second {
		t.Errorf("%d attempts in %v, want the failure at once", got.Attempts, got.Duration)
	}
}

func TestUnreachableIsRetriedAndSaysSo(t *testing.T) {
	cms := upstreamtest.New(t)
	client := newClient(t, cms.URL, nil)
	cms.Down()
	got, err := client.Fetch(t.Context(), shape.Catalogue, Held{})
	wantError(t, err, ErrUnreachable, "connection refused")
	if got.Attempts != 3 {
		t.Errorf("%d attempts, want 3", got.Attempts)
	}
	if n := strings.Count(err.Error(), cms.URL); n != 1 {
		t.Errorf("%v: names the URL %d times", err, n)
	}
	cms.Up()
	mustFetch(t, client, shape.Catalogue)
}

func TestTimeoutIsOverTheWholeFetch(t *testing.T) {
	t.Parallel()
	cms := upstreamtest.New(t)
	cms.FailNext(1, 503)
	client := newClient(t, cms.URL, func(o *options) { o.Timeout = time.Second })
	warm := mustFetch(t, client, shape.Banners) // the 503 too
	if warm.Attempts != 2 {
		t.Fatalf("%d attempts", warm.Attempts)
	}
	cms.Block()
	got, err := client.Fetch(t.Context(), shape.Banners, Held{})
	wantError(t, err, ErrTimeout, "fetch banners: GET "+cms.URL+"/gvapp/singlebanner: no complete response within 1s")
	if got.Attempts != 1 || got.Duration > 5*time.Second {
		t.Errorf("%d attempts in %v", got.Attempts, got.Duration)
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

func TestTimeoutRemembersTheAttemptBefore(t *testing.T) {
	t.Parallel()
	cms := upstreamtest.New(t)
	hang := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	cms.Next(upstreamtest.Status(502), hang)
	client := newClient(t, cms.URL, func(o *options) { o.Timeout = time.Second })
	_, err := client.Fetch(t.Context(), shape.Banners, Held{})
	wantError(t, err, ErrTimeout, "no complete response within 1s (previous attempt: status 502)")
}

func TestCallersDeadlineIsATimeoutToo(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Block()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := newClient(t, cms.URL, nil).Fetch(ctx, shape.Banners, Held{})
	wantError(t, err, ErrTimeout, "no complete response before the caller's deadline")
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
// place of an id, where a program fails, and in an error, and a request that the error quotes. The
// key is one of the configuration, or a token that a login got.
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
		{403, `{"error":{"name":"KEY","message":"KEY is wrong"}}`, ".results", "login"},
		{200, `{"results":[{"id":"KEY"}]}`, ".results", "login"},
	} {
		var log bytes.Buffer
		client := newClient(t, "http://cms", func(o *options) {
			o.Preset, o.Shared.Secrets, o.Logger = "custom", []string{secret}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			if answer.style == "login" {
				answer.style, o.Shared.Secrets = "", nil
				o.Shared.Login = &source.Login{Path: "login", Form: map[string]string{"name": "me"}}
			}
			o.Transport = jsonCMS(func(req *http.Request) (int, string) {
				if req.Method == http.MethodPost {
					return http.StatusOK, `{"access_token":"` + secret + `"}`
				}
				return answer.status, strings.ReplaceAll(strings.Replace(answer.body, "%s", bannerOf(1, "a"), 1), "KEY", secret)
			})
			o.Resources = bannersAlone(source.Part{Path: "banners", Items: answer.items, Query: url.Values{"k": {secret}}, Paging: source.Paging{Style: answer.style, Param: "page"}})
		})
		got, err := client.Fetch(t.Context(), shape.Banners, Held{})
		explained, failed := client.Explain(t.Context(), shape.Banners)
		shown := fmt.Sprint(err, got.Suspicions, failed, log.String())
		for _, e := range explained {
			shown += e.Error
		}
		if status, ok := errors.AsType[*StatusError](err); ok {
			shown += status.Said
		}
		if refused, ok := errors.AsType[*shape.RefusedError](err); ok {
			shown += refused.Got
		}
		if err == nil && len(got.Suspicions) == 0 || strings.Contains(shown, "hunter") || !strings.Contains(shown, "****") {
			t.Errorf("%s: %s", answer.body, shown)
		}
	}
}
