package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestJudgeIsTheTableOfThePolicy(t *testing.T) {
	type row struct {
		err  error
		want verdict
	}
	passing := verdict{kind: ErrAnswer, again: true, trips: true}
	rows := []row{
		{&ContentError{Damaged: true}, passing},
		{&ContentError{Page: true}, verdict{kind: ErrAnswer, trips: true}},
		{&ContentError{}, verdict{kind: ErrAnswer}},
		{&shape.RefusedError{}, verdict{kind: ErrAnswer}},
		{&FetchError{Kind: ErrAnswer, Err: errors.New("the pages have no end")}, verdict{kind: ErrAnswer}},
		{&url.Error{Err: &RedirectError{Code: 302}}, verdict{kind: ErrAnswer}},
		{&url.Error{Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}, verdict{kind: ErrUnreachable, trips: true}},
		{&url.Error{Err: tls.RecordHeaderError{}}, verdict{kind: ErrUnreachable, trips: true}},
		{&url.Error{Err: http.ErrSchemeMismatch}, verdict{kind: ErrUnreachable, trips: true}},
		{&url.Error{Err: syscall.ECONNREFUSED}, verdict{ErrUnreachable, true, true}},
		{&url.Error{Err: io.EOF}, verdict{ErrUnreachable, true, true}},
		{&FetchError{Kind: ErrTimeout, Err: &lateError{last: &StatusError{Code: 404}}}, verdict{kind: ErrTimeout, trips: true}},
		{&FetchError{Kind: ErrOpen, Err: &OpenError{}}, verdict{kind: ErrOpen}},
		{&StatusError{Code: 401, Outage: true}, passing},
	}
	for want, codes := range map[verdict][]int{
		passing:                        {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524},
		{kind: ErrAnswer, trips: true}: {501, 505, 508, 511, 525, 530},
		{kind: ErrAnswer}:              {201, 204, 206, 300, 301, 304, 401, 403, 404, 407, 410, 451},
		{kind: ErrAnswer}:              {400, 405, 406, 409, 418, 431},
	} {
		for _, code := range codes {
			rows = append(rows, row{&StatusError{Code: code}, want})
		}
	}
	for _, r := range rows {
		if got := judge(r.err); got != r.want {
			t.Errorf("%v: %v, want %v", r.err, got, r.want)
		}
	}
}

var update = flag.Bool("update", false, "write the table into docs/upstream.md")

func TestTableInTheDocsIsTheOneInForce(t *testing.T) {
	const file, from, to = "../docs/upstream.md", "<!-- table: upstream/retry.go -->\n", "<!-- end of the table -->\n"
	var table strings.Builder
	table.WriteString("| what an attempt met | again | counts for the breaker | visitors without a copy get |\n|---|---|---|---|\n")
	yes := map[bool]string{true: "yes", false: "–"}
	answered := map[error]string{ErrAnswer: "502", ErrUnreachable: "503", ErrTimeout: "504", ErrOpen: "503"}
	for _, r := range rules {
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", r.met, yes[r.again], yes[r.trips], answered[r.kind])
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), from)
	have, after, found := strings.Cut(rest, to)
	if !ok || !found {
		t.Fatalf("%s has no place for the table", file)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+from+table.String()+to+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != table.String() {
		t.Errorf("%s does not have the table of retry.go; run go test ./upstream -run TableInTheDocs -update\nwant\n%s", file, &table)
	}
}

func TestPassingFailureIsRetried(t *testing.T) {
	cms := upstreamtest.New(t)
	var logged bytes.Buffer
	client := newClient(t, cms.URL, func(o *Options) { o.Logger = logTo(&logged) })
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
		client := newClient(t, cms.URL, func(o *Options) { o.Retries = retries })
		got, err := client.Fetch(t.Context(), shape.Rules, Validators{})
		wantError(t, err, ErrAnswer, "fetch rules: GET "+cms.URL+"/cms/rules/: status 503")
		if n := cms.Count(shape.Rules); n != retries+1 || got.Attempts != n {
			t.Errorf("%d retries: %d requests, %d attempts", retries, n, got.Attempts)
		}
	}
}

func TestFinalFailureIsNotRetried(t *testing.T) {
	for _, h := range []http.Handler{
		upstreamtest.Status(404),
		upstreamtest.Status(501),
		upstreamtest.Status(204),
		upstreamtest.Status(304),
		upstreamtest.HTML(200),
		upstreamtest.JSON(`{"not": "a list"}`),
	} {
		cms := upstreamtest.New(t)
		cms.Handle(shape.Banners, h)
		_, err := newClient(t, cms.URL, nil).Fetch(t.Context(), shape.Banners, Validators{})
		wantError(t, err, ErrAnswer, "")
		if n := cms.Count(shape.Banners); n != 1 {
			t.Errorf("%v: %d requests, want 1", err, n)
		}
	}
}

func TestRetryAfterThatDoesNotFitIsReportedAtOnce(t *testing.T) {
	for _, status := range []int{429, 503} {
		cms := upstreamtest.New(t)
		cms.Fail(status, "Retry-After", "3600")
		got, err := newClient(t, cms.URL, nil).Fetch(t.Context(), shape.Banners, Validators{})
		wantError(t, err, ErrAnswer, fmt.Sprintf("status %d", status))
		if RetryAfter(err) != time.Hour {
			t.Errorf("%v carries %v, want 1h", err, RetryAfter(err))
		}
		if got.Attempts != 1 {
			t.Errorf("status %d: %d attempts, want 1", status, got.Attempts)
		}
	}
}

func TestRetryAfterThatFitsIsWaitedFor(t *testing.T) {
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
	client := newClient(t, cms.URL, func(o *Options) {
		o.Timeout, o.RetryWait, o.MaxRetryWait = 5*time.Second, time.Minute, time.Minute
	})
	got, err := client.Fetch(t.Context(), shape.Banners, Validators{})
	wantError(t, err, ErrAnswer, "status 500")
	if got.Attempts != 1 || got.Duration > 4*time.Second {
		t.Errorf("%d attempts in %v, want the failure at once", got.Attempts, got.Duration)
	}
}

func TestWaitsDoubleUpToTheirCapWithJitter(t *testing.T) {
	o := Options{RetryWait: 100 * time.Millisecond, MaxRetryWait: 800 * time.Millisecond}
	for made, full := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 4: 800 * time.Millisecond, 5: 800 * time.Millisecond, 99: 800 * time.Millisecond,
	} {
		seen := map[time.Duration]bool{}
		for range 200 {
			a := attempts{options: &o, made: made}
			wait := a.pause(0)
			if wait < full/2 || wait > full {
				t.Fatalf("after attempt %d: %v, want %v to %v", made, wait, full/2, full)
			}
			seen[wait] = true
			if asked := a.pause(3 * time.Second); asked < 3*time.Second || asked > 3*time.Second+full {
				t.Fatalf("after attempt %d, asked for 3s: %v", made, asked)
			}
		}
		if len(seen) < 10 {
			t.Errorf("after attempt %d: %d different waits of 200", made, len(seen))
		}
	}
}

func TestUnreachableIsRetriedAndSaysSo(t *testing.T) {
	cms := upstreamtest.New(t)
	client := newClient(t, cms.URL, nil)
	cms.Down()
	got, err := client.Fetch(t.Context(), shape.Catalogue, Validators{})
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

func TestHangupIsUnreachable(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Handle(shape.Rules, upstreamtest.Hangup())
	_, err := newClient(t, cms.URL, nil).Fetch(t.Context(), shape.Rules, Validators{})
	wantError(t, err, ErrUnreachable, "EOF")
}

func TestTimeoutIsOverTheWholeFetch(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.FailNext(1, 503)
	client := newClient(t, cms.URL, func(o *Options) { o.Timeout = 250 * time.Millisecond })
	warm := mustFetch(t, client, shape.Banners) // the 503 too
	if warm.Attempts != 2 {
		t.Fatalf("%d attempts", warm.Attempts)
	}
	cms.Block()
	got, err := client.Fetch(t.Context(), shape.Banners, Validators{})
	wantError(t, err, ErrTimeout, "fetch banners: GET "+cms.URL+"/gvapp/singlebanner: no whole answer within 250ms")
	if got.Attempts != 1 || got.Duration > 5*time.Second {
		t.Errorf("%d attempts in %v", got.Attempts, got.Duration)
	}
}

func TestTimeoutRemembersTheAttemptBefore(t *testing.T) {
	cms := upstreamtest.New(t)
	hang := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	cms.Next(upstreamtest.Status(502), hang)
	client := newClient(t, cms.URL, func(o *Options) { o.Timeout = 250 * time.Millisecond })
	_, err := client.Fetch(t.Context(), shape.Banners, Validators{})
	wantError(t, err, ErrTimeout, "no whole answer within 250ms (the attempt before: status 502)")
}

func TestBodyThatStallsIsATimeout(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Handle(shape.Banners, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "[")
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	}))
	client := newClient(t, cms.URL, func(o *Options) { o.Timeout = 250 * time.Millisecond })
	_, err := client.Fetch(t.Context(), shape.Banners, Validators{})
	wantError(t, err, ErrTimeout, "no whole answer within 250ms")
}

func TestCallersDeadlineIsATimeoutToo(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Block()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := newClient(t, cms.URL, nil).Fetch(ctx, shape.Banners, Validators{})
	wantError(t, err, ErrTimeout, "no whole answer before the caller's deadline")
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
			_, err := client.Fetch(ctx, shape.Banners, Validators{})
			failed <- err
		}()
		cms.WaitCount(shape.Banners, before+1)
		cancel()
		wantCancelled(t, <-failed)
	})
	t.Run("while waiting for a retry", func(t *testing.T) {
		cms.FailNext(1, 503)
		ctx, cancel := context.WithCancel(t.Context())
		slow := newClient(t, cms.URL, func(o *Options) {
			o.Timeout, o.RetryWait, o.MaxRetryWait = time.Hour, time.Minute, time.Minute
			o.Logger = slog.New(onLog{cancel}) // told of the wait just before it begins
		})
		_, err := slow.Fetch(ctx, shape.Banners, Validators{})
		wantCancelled(t, err)
	})
	t.Run("before it began", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, url := range []string{cms.URL, "sample:"} {
			_, err := newClient(t, url, nil).Fetch(ctx, shape.Banners, Validators{})
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

func TestCertificateFaultIsNotRetried(t *testing.T) {
	server := newTLS(t, upstreamtest.JSON("[]"))
	got, err := newClient(t, server.URL, nil).Fetch(t.Context(), shape.Banners, Validators{})
	wantError(t, err, ErrUnreachable, "certificate signed by unknown authority")
	if got.Attempts != 1 {
		t.Errorf("%d attempts, want 1", got.Attempts)
	}
}

func TestPlainPortBehindHTTPSIsNotRetried(t *testing.T) {
	cms := upstreamtest.New(t)
	https := strings.Replace(cms.URL, "http:", "https:", 1)
	got, err := newClient(t, https, nil).Fetch(t.Context(), shape.Banners, Validators{})
	wantError(t, err, ErrUnreachable, "")
	if got.Attempts != 1 {
		t.Errorf("%v: %d attempts, want 1", err, got.Attempts)
	}
}

func TestRetryAfterIsReadAsSecondsOrDate(t *testing.T) {
	now := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	date := now.Add(-3 * time.Hour).Format(http.TimeFormat) // a clock three hours slow
	for _, c := range []struct {
		value, date string
		want        time.Duration
	}{
		{"120", "", 2 * time.Minute},
		{" 7 ", "", 7 * time.Second},
		{"0", "", 0},
		{"", "", 0},
		{"-5", "", 0},
		{"1.5", "", 0},
		{"soon", "", 0},
		{"86401", "", longest},
		{"99999999999999999999999999", "", longest},
		{now.Add(time.Minute).Format(http.TimeFormat), "", time.Minute},
		{now.Add(-time.Minute).Format(http.TimeFormat), "", 0},
		{now.Add(1000 * time.Hour).Format(http.TimeFormat), "", longest},
		{now.Add(time.Minute - 3*time.Hour).Format(http.TimeFormat), date, time.Minute},
		{now.Add(time.Minute).Format(time.RFC850), "yesterday", time.Minute},
	} {
		h := http.Header{}
		h.Set("Retry-After", c.value)
		h.Set("Date", c.date)
		if got := parseRetryAfter(h, now); got != c.want {
			t.Errorf("%q at %q: %v, want %v", c.value, c.date, got, c.want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "-1", "Fri, 31 Dec 1999 23:59:59 GMT", "Friday, 31-Dec-99 23:59:59 GMT", "１２", "1e9", "0x10"} {
		f.Add(s, "Sat, 21 Nov 2026 00:37:57 GMT")
	}
	now := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value, date string) {
		got := parseRetryAfter(http.Header{"Retry-After": {value}, "Date": {date}}, now)
		if got < 0 || got > longest {
			t.Errorf("%q at %q: %v, want 0 to %v", value, date, got, longest)
		}
	})
}
