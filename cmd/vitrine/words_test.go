package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/upstream/sanitize"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// foreign are words of others that a terminal obeys, that forge or disguise a line, and that are
// long.
var foreign = "\x1b]0;t\x07\u009b31m\u202e\u2066\u2028 " + strings.Repeat("y", 500)

// wrongIn says what of foreign text was let through, or "".
func wrongIn(out string) string {
	if i := strings.Index(out, strings.Repeat("y", sanitize.Most+1)); i >= 0 {
		return fmt.Sprintf("%.400q", out[max(0, i-200):])
	}
	if out == sanitize.JSON(out) {
		return ""
	}
	for line := range strings.Lines(out) {
		if sanitize.JSON(line) != line {
			return fmt.Sprintf("%.400q", line)
		}
	}
	return "?"
}

// lyingRedis answers each command with an error of foreign words.
func lyingRedis(t *testing.T) (addr string) {
	t.Helper()
	return testkit.Accept(t, func(conn net.Conn) {
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "*") {
				_, _ = io.WriteString(conn, "-ERR "+foreign+"\r\n")
			}
		}
	})
}

// TestForeignWordsAreEscapedWhereverTheyComeOut walks all outputs: the log in each format, each
// command as text and as JSON, the operator's page and status, notifications. Visitors, the CMS, Redis
// and a server in the place of vitrine speak.
func TestForeignWordsAreEscapedWhereverTheyComeOut(t *testing.T) {
	t.Parallel()
	var notified testkit.Buffer
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(&notified, r.Body)
		w.Header().Set("X", foreign)
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, foreign)
	}))
	t.Cleanup(endpoint.Close)
	file := filepath.Join(t.TempDir(), "vitrine.yaml")
	testkit.Must(t, os.WriteFile(file, []byte("notify: [{name: hook, preset: webhook, url: '"+endpoint.URL+"'}]\n"), 0o600))
	try := func(environ []string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		run(t.Context(), args, program{environ: environ, stdout: &out, stderr: &out})
		if wrong := wrongIn(out.String()); wrong != "" || out.Len() == 0 && args[0] != "healthcheck" {
			t.Errorf("vitrine %q prints %s", args, wrong)
		}
	}
	address := func() string { return fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t)) }

	for _, format := range []string{"text", "json"} {
		for name, redis := range map[string]string{"a Redis that lies": lyingRedis(t), "planted fields": ""} {
			var server *redistest.Server
			if redis == "" {
				server = redistest.Start(t)
				redis = server.Addr
			}
			cms := upstreamtest.New(t)
			cms.Set(shape.Banners, fmt.Sprintf(`[{"id":1,"title":%q},{"id":2,"title":"two"}]`, "title"))
			public, operator := address(), address()
			environ := []string{
				"VITRINE_CONFIG=" + file, "VITRINE_LISTEN=" + public, "VITRINE_ADMIN_LISTEN=" + operator, "VITRINE_REDIS_URL=redis://" + redis,
				"VITRINE_UPSTREAM_URL=" + cms.URL, "VITRINE_UPSTREAM_RETRIES=0", "VITRINE_TTL=1s",
				"VITRINE_LOG_LEVEL=debug", "VITRINE_LOG_FORMAT=" + format, "VITRINE_LOG_ACCESS=on",
			}
			var log testkit.Buffer
			var serving sync.WaitGroup
			ctx, stop := context.WithCancel(t.Context())
			serving.Go(func() { run(ctx, []string{"serve"}, program{environ: environ, stdout: &log, stderr: &log}) })
			visit := func() {
				for _, r := range shape.Resources() {
					conn, err := net.Dial("tcp", public)
					testkit.Must(t, err)
					testkit.Must(t, conn.SetDeadline(time.Now().Add(testkit.Patience)))
					_, _ = fmt.Fprintf(conn, "GET %s?%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nReferer: %[2]s\r\nUser-Agent: %[2]s\x9b\r\n\r\n",
						r.Route(), strings.NewReplacer("\x1b", "", "\a", "", " ", "").Replace(foreign))
					_, _ = io.Copy(io.Discard, conn)
					_ = conn.Close()
				}
			}
			testkit.Eventually(t, "vitrine serves", func() bool {
				return strings.Contains(log.String(), "address="+operator) || strings.Contains(log.String(), `"address":"`+operator)
			})
			visit()
			if server != nil {
				for _, key := range server.Client().Keys(t.Context(), "vitrine:*").Val() {
					for field := range server.Client().HGetAll(t.Context(), key).Val() {
						switch field {
						case "body", "etag", "fetched_at", "changed_at", "set", "seq":
						default:
							testkit.Must(t, server.Client().HSet(t.Context(), key, field, foreign).Err())
						}
					}
					for _, field := range []string{"restored_by", "held_findings", "failure", "accepted", "purged_by", "by", foreign} {
						server.Client().HSet(t.Context(), key, field, foreign)
					}
					server.Client().HSet(t.Context(), key, "fresh_until", time.Now().Add(time.Hour).UnixMilli(), "held_since", time.Now().UnixMilli())
				}
			}
			cms.Set(shape.Banners, fmt.Sprintf(`[{"id":1,"title":%q},{"id":3,"title":%q}]`, "title", foreign))
			cms.Set(shape.Rules, fmt.Sprintf(`[{"id":%q}]`, foreign))
			cms.Handle(shape.Catalogue, upstreamtest.Answer(http.StatusForbidden, fmt.Sprintf(`{"detail":%q}`, foreign), nil, "Content-Type", "application/json", "X-Error", "y"))
			for _, args := range []string{
				"check", "check --json", "check --diff", "check --diff --json", "check --explain banners", "check --explain banners --json", "check --explain rules",
				"history", "history banners", "history banners 0123456789ab", "restore banners 0123456789ab", "restore banners latest", "accept banners",
				"status", "status --json", "healthcheck", "notify", "notify --dry-run", "config",
				"purge --soft banners", "purge rules", "purge --history catalogue",
			} {
				try(environ, strings.Fields(args)...)
				visit()
			}
			for _, path := range []string{"", "api/status", "readyz", "documents/banners", "metrics"} {
				response, err := http.Get("http://" + operator + "/" + path)
				testkit.Must(t, err)
				body, err := io.ReadAll(response.Body)
				testkit.Must(t, err)
				_ = response.Body.Close()
				if path == "documents/banners" { // it is the CMS's content
					body = bytes.ReplaceAll(body, []byte("yyy"), nil)
				}
				if wrong := wrongIn(string(body)); wrong != "" {
					t.Errorf("%s: /%s shows %s", name, path, wrong)
				}
			}
			stop()
			serving.Wait()
			if wrong := wrongIn(log.String()); wrong != "" || strings.Count(log.String(), "\n") < 20 {
				t.Errorf("%s: the log in %s has %d lines, and %s", name, format, strings.Count(log.String(), "\n"), wrong)
			}
		}
	}
	if wrong := wrongIn(notified.String()); wrong != "" || notified.String() == "" {
		t.Errorf("notified is %s", wrong)
	}
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, foreign)
	}))
	t.Cleanup(liar.Close)
	plausible := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		short := strings.TrimRight(foreign, "y") // a status is printed as it is, but for its characters
		testkit.Check(t, json.NewEncoder(w).Encode(map[string]any{"name": short, "version": short, "verdict": map[string]any{"sentence": short}}))
	}))
	t.Cleanup(plausible.Close)
	try(nil, "status", "--url", plausible.URL)
	try(nil, "status", "--json", "--url", plausible.URL)
	try(nil, "status", "--url", liar.URL)
	try(nil, "healthcheck", "--url", liar.URL)
	try(nil, "purge", foreign)
	try(nil, foreign)
	try(nil, "status", "--url", foreign)
	try([]string{"VITRINE_TTL=" + foreign}, "config")
	long := strings.Repeat("y", 500)
	for _, text := range []string{
		"ttl: \"" + long + "\\x1b\\u202e\\u0085\"\nredis: {? \"\\x1b\\u202e" + long + "\" : 1}\n", "ttl: !" + long + " x\n", "ttl: *" + long + "\n",
	} {
		testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
		try([]string{"VITRINE_CONFIG=" + file}, "config")
	}
}
