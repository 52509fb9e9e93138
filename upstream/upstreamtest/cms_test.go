package upstreamtest_test

import (
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reply is what came of a request.
type reply struct {
	code   int
	header http.Header
	length int64 // as announced
	body   string
}

// get asks on a connection of its own.
func get(t *testing.T, url string, header ...string) (reply, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	testkit.Must(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, resp.ContentLength, string(body)}, err
}

func mustGet(t *testing.T, url string, header ...string) reply {
	t.Helper()
	got, err := get(t, url, header...)
	testkit.Must(t, err)
	return got
}

func TestNewServesTheRecordedDocuments(t *testing.T) {
	cms := upstreamtest.New(t)
	for _, r := range shape.Resources() {
		got := mustGet(t, cms.URL+r.Route())
		if got.code != 200 || got.header.Get("Content-Type") != "application/json" || len(got.body) < 2000 {
			t.Errorf("%s: status %d, %s, %d bytes", r, got.code, got.header.Get("Content-Type"), len(got.body))
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
	first := mustGet(t, url)
	if first.body != "[]" {
		t.Fatalf("body %q", first.body)
	}
	if got := mustGet(t, url, "If-None-Match", first.header.Get("ETag")); got.code != 304 {
		t.Errorf("status %d, want 304", got.code)
	}
	cms.Set(shape.Banners, "[ ]")
	if got := mustGet(t, url, "If-None-Match", first.header.Get("ETag")); got.code != 200 {
		t.Errorf("status %d after a change, want 200", got.code)
	}
}

func TestFailuresComeInTurnAndEnd(t *testing.T) {
	cms := upstreamtest.New(t)
	url := cms.URL + "/gvapp/"
	cms.Fail(500)
	cms.FailNext(1, 503, "Retry-After", "7")
	first := mustGet(t, url)
	second := mustGet(t, url)
	cms.Recover()
	third := mustGet(t, url)
	if first.code != 503 || first.header.Get("Retry-After") != "7" || second.code != 500 || third.code != 200 {
		t.Errorf("got %d, %d, %d", first.code, second.code, third.code)
	}
}

func TestBlockedAnswerIsTheOneCurrentOnArrival(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Set(shape.Rules, `["old"]`)
	release := cms.Block()
	got := make(chan string, 1)
	go func() {
		late, err := get(t, cms.URL+"/cms/rules/")
		if err != nil {
			late.body = err.Error()
		}
		got <- late.body
	}()
	cms.WaitCount(shape.Rules, 1)
	cms.Set(shape.Rules, `["new"]`)
	release()
	release()
	if body := testkit.Receive(t, got); body != `["old"]` {
		t.Errorf("got %s", body)
	}
	if after := mustGet(t, cms.URL+"/cms/rules/"); after.body != `["new"]` {
		t.Errorf("after the release: %s", after.body)
	}
}

func TestDownRefusesAndUpOpensTheSamePort(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Down()
	if _, err := get(t, cms.URL+"/gvapp/"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("while down: %v, want connection refused", err)
	}
	cms.Up()
	mustGet(t, cms.URL+"/gvapp/")
}

func TestMisbehaviourIsWhatItSays(t *testing.T) {
	cms := upstreamtest.New(t)
	url := cms.URL + "/gvapp/"

	cms.Next(upstreamtest.Truncated("[1,2,3]", 3))
	if got, err := get(t, url); !errors.Is(err, io.ErrUnexpectedEOF) || got.body != "[1," {
		t.Errorf("Truncated: %q, %v", got.body, err)
	}
	cms.Next(upstreamtest.Recorded(t, upstreamtest.Recording(t, "gzip-get")))
	if got := mustGet(t, url); got.length != 1550 || len(got.body) != 1550 {
		t.Errorf("Recorded: Content-Length %d, %d bytes, want 1550", got.length, len(got.body))
	}
}
