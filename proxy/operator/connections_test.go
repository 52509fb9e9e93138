package operator

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// TestHealthChecksAreAnsweredWhateverElseIsOpen has strangers take all connections and more, and
// hold them in one step of a request.
func TestHealthChecksAreAnsweredWhateverElseIsOpen(t *testing.T) {
	const many = 8
	for name, sent := range map[string]string{
		"silent":              "",
		"idle":                "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"half a header":       "GET /livez HTTP/1.1\r\nHost: local",
		"half a body":         "POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
		"half a delivery":     "POST /hooks/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
		"an answer in making": "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"an unread answer":    strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 100),
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, Options{OpenAPI: make([]byte, 100<<10), ReadyTimeout: time.Minute, Checks: map[string]func(context.Context) error{
				"rules": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			}, Hook: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })})
			s.connections.most = many
			url := serve(t, s)
			for range 2 * many {
				conn := testkit.Dial(t, "tcp", strings.TrimPrefix(url, "http://"))
				if _, err := io.WriteString(conn, sent); err != nil {
					t.Fatal(err)
				}
			}
			client := http.Client{Timeout: testkit.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Get(url + "/livez")
			testkit.Must(t, err)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Error(resp.Status)
			}
		})
	}
}
