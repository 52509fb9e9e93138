package upstreamtest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The responses of a CMS. A header argument is pairs of name and value that are set last, so they
// can replace the response's own.

// JSON answers 200 with body, and 304 to an If-None-Match that names its ETag.
func JSON(body string, header ...string) http.Handler {
	sum := sha256.Sum256([]byte(body))
	etag := `"` + hex.EncodeToString(sum[:8]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		describe(w, header, "Content-Type", "application/json", "ETag", etag)
		if strings.Contains(req.Header.Get("If-None-Match"), etag) {
			w.Header().Del("Content-Type")
			w.WriteHeader(http.StatusNotModified)
			return
		}
		write(w, http.StatusOK, body)
	})
}

// Status answers with code and, unless code forbids a body, the JSON of Django REST Framework's
// errors.
func Status(code int, header ...string) http.Handler {
	if code == http.StatusNoContent || code == http.StatusNotModified {
		return Answer(code, "", header)
	}
	return Answer(code, `{"detail":"`+http.StatusText(code)+`."}`, header, "Content-Type", "application/json")
}

// HTML answers with code and a page, such as a login form or Django's own errors.
func HTML(code int, header ...string) http.Handler {
	page := "<!doctype html>\n<html lang=\"en\"><title>" + http.StatusText(code) + "</title></html>\n"
	return Answer(code, page, header, "Content-Type", "text/html; charset=utf-8")
}

// Answer answers with code and body, and the given header fields beside or instead of its own.
func Answer(code int, body string, given []string, own ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		describe(w, given, own...)
		write(w, code, body)
	})
}

// Truncated announces the whole body, sends its first n bytes and hangs up.
func Truncated(body string, n int, header ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		describe(w, header, "Content-Type", "application/json", "Content-Length", strconv.Itoa(len(body)))
		write(w, http.StatusOK, body[:n])
		_ = http.NewResponseController(w).Flush() // the client may be gone
		panic(http.ErrAbortHandler)
	})
}

// Recorded replays a raw HTTP answer.
func Recorded(tb testing.TB, raw []byte) http.Handler {
	tb.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		tb.Fatalf("upstreamtest: recorded answer: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatalf("upstreamtest: recorded answer: %v", err)
	}
	header := resp.Header
	header.Del("Connection") // of the connection then, not of this one
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		write(w, resp.StatusCode, string(body))
	})
}

// describe sets the headers of every response of the CMS, then own, then given.
func describe(w http.ResponseWriter, given []string, own ...string) {
	h := w.Header()
	h.Set("Vary", "Accept")
	h.Set("Allow", "GET, HEAD, OPTIONS")
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	for _, pairs := range [][]string{own, given} {
		for i := 0; i+1 < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
	}
}

// write ignores errors: the test checks what it reads.
func write(w http.ResponseWriter, code int, body string) {
	w.WriteHeader(code)
	if body != "" { // some statuses forbid one
		_, _ = io.WriteString(w, body)
	}
}
