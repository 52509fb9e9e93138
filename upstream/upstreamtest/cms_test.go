package upstreamtest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get asks on a connection of its own.
func get(t *testing.T, url string, header ...string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	resp, err := (&http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}).Do(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

func mustGet(t *testing.T, url string, header ...string) (*http.Response, string) {
	t.Helper()
	resp, body, err := get(t, url, header...)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

func TestNewServesTheRecordedDocuments(t *testing.T) {
	cms := upstreamtest.New(t)
	for _, r := range shape.Resources() {
		resp, body := mustGet(t, cms.URL+upstreamtest.Path(r))
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" || len(body) < 2000 {
			t.Errorf("%s: status %d, %s, %d bytes", r, resp.StatusCode, resp.Header.Get("Content-Type"), len(body))
		}
		if cms.Count(r) != 1 {
			t.Errorf("%s: counted %d, want 1", r, cms.Count(r))
		}
	}
}

func TestSetAnswersItsOwnETagWith304(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Set(shape.Banners, "[]")
	url := cms.URL + "/gvapp/singlebanner"
	resp, body := mustGet(t, url)
	if body != "[]" {
		t.Fatalf("body %q", body)
	}
	if resp, _ := mustGet(t, url, "If-None-Match", resp.Header.Get("ETag")); resp.StatusCode != 304 {
		t.Errorf("status %d, want 304", resp.StatusCode)
	}
	cms.Set(shape.Banners, "[ ]")
	if resp, _ := mustGet(t, url, "If-None-Match", resp.Header.Get("ETag")); resp.StatusCode != 200 {
		t.Errorf("status %d after a change, want 200", resp.StatusCode)
	}
}

func TestFailuresComeInTurnAndEnd(t *testing.T) {
	cms := upstreamtest.New(t)
	url := cms.URL + "/gvapp/"
	cms.Fail(500)
	cms.FailNext(1, 503, "Retry-After", "7")
	first, _ := mustGet(t, url)
	second, _ := mustGet(t, url)
	cms.Recover()
	third, _ := mustGet(t, url)
	if first.StatusCode != 503 || first.Header.Get("Retry-After") != "7" || second.StatusCode != 500 || third.StatusCode != 200 {
		t.Errorf("got %d, %d, %d", first.StatusCode, second.StatusCode, third.StatusCode)
	}
}

func TestBlockedAnswerIsTheOneCurrentOnArrival(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Set(shape.Rules, `["old"]`)
	release := cms.Block()
	got := make(chan string, 1)
	go func() {
		_, body, err := get(t, cms.URL+"/cms/rules/")
		if err != nil {
			body = err.Error()
		}
		got <- body
	}()
	cms.WaitCount(shape.Rules, 1)
	cms.Set(shape.Rules, `["new"]`)
	release()
	release()
	if body := <-got; body != `["old"]` {
		t.Errorf("got %s", body)
	}
	if _, body := mustGet(t, cms.URL+"/cms/rules/"); body != `["new"]` {
		t.Errorf("after the release: %s", body)
	}
}

func TestDownRefusesAndUpOpensTheSamePort(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Down()
	if _, _, err := get(t, cms.URL+"/gvapp/"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("while down: %v, want connection refused", err)
	}
	cms.Up()
	mustGet(t, cms.URL+"/gvapp/")
}

func TestMisbehaviourIsWhatItSays(t *testing.T) {
	cms := upstreamtest.New(t)
	url := cms.URL + "/gvapp/"

	cms.Next(upstreamtest.Truncated("[1,2,3]", 3))
	if _, body, err := get(t, url); !errors.Is(err, io.ErrUnexpectedEOF) || body != "[1," {
		t.Errorf("Truncated: %q, %v", body, err)
	}
	cms.Next(upstreamtest.Unframed("[1,"))
	if resp, body, err := get(t, url); err != nil || body != "[1," || resp.ContentLength != -1 {
		t.Errorf("Unframed: %q, %v", body, err)
	}
	cms.Next(upstreamtest.Hangup())
	if _, _, err := get(t, url); !errors.Is(err, io.EOF) {
		t.Errorf("Hangup: %v", err)
	}
	cms.Next(upstreamtest.Redirect(301, "/elsewhere/"))
	if resp, _ := mustGet(t, url); resp.StatusCode != 301 || resp.Header.Get("Location") != "/elsewhere/" {
		t.Errorf("Redirect: %d to %q", resp.StatusCode, resp.Header.Get("Location"))
	}
	cms.Next(upstreamtest.Gzip("[]"))
	if resp, body := mustGet(t, url); resp.Header.Get("Content-Encoding") != "gzip" || !strings.HasPrefix(body, "\x1f\x8b") {
		t.Errorf("Gzip: %v, %q", resp.Header, body)
	}
	cms.Next(upstreamtest.Recorded(t, upstreamtest.Recording(t, "gzip-get")))
	if resp, body := mustGet(t, url); resp.ContentLength != 1550 || len(body) != 1550 {
		t.Errorf("Recorded: Content-Length %d, %d bytes, want 1550", resp.ContentLength, len(body))
	}
}
