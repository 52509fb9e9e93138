package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
)

// An endpoint is a webhook that vitrine notifies of changes and purges, and that can do harm.
type endpoint struct {
	t        *testing.T
	address  string
	server   *http.Server
	listener net.Listener
	answer   atomic.Pointer[http.HandlerFunc]
	etag     atomic.Pointer[string] // of the last document in a notification
}

// newEndpoint starts one, which gets each request over a connection of its own.
func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{t: t, address: harness.FreeAddress(t)}
	e.server = &http.Server{
		Handler:  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*e.answer.Load())(w, r) }),
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	e.server.SetKeepAlivesEnabled(false)
	e.well()
	e.up()
	t.Cleanup(func() { _ = e.server.Close() })
	return e
}

func (e *endpoint) up() {
	listener, err := net.Listen("tcp", e.address)
	if err != nil {
		e.t.Error(err)
		return
	}
	e.listener = listener
	go func() { _ = e.server.Serve(listener) }() // until down, or the end
}

func (e *endpoint) down() { _ = e.listener.Close() }

func (e *endpoint) does(f http.HandlerFunc) { e.answer.Store(&f) }

// well has it accept notifications.
func (e *endpoint) well() {
	e.does(func(_ http.ResponseWriter, r *http.Request) {
		var event struct{ Resource, ETag string }
		body, err := io.ReadAll(r.Body)
		if err == nil && json.Unmarshal(body, &event) == nil && event.Resource == "banners" {
			e.etag.Store(&event.ETag)
		}
	})
}

// configuration is a file that names the endpoint.
func (e *endpoint) configuration() string {
	return harness.File(e.t, "vitrine.yaml", fmt.Sprintf("notify: [{name: hook, preset: webhook, url: 'http://%s', events: [changed, purged]}]\n", e.address))
}

// faultsOfTheEndpoint begin with a purge, of which vitrine has to notify it.
func (tr *trial) faultsOfTheEndpoint() []fault {
	fails := says{"", "cannot notify an endpoint", `vitrine_notifications_total{outcome="failed",target="hook"} `, `"error": "POST `}
	does := func(f http.HandlerFunc) func() {
		return func() {
			tr.endpoint.does(f)
			tr.Purge(tr.t, tr.redis)
		}
	}
	// writes writes the first text, and then the other one until the connection ends.
	writes := func(first, again string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				tr.t.Error(err)
				return
			}
			defer c.Close()
			for text := first; err == nil && text != ""; text = again {
				_, err = io.WriteString(c, text)
			}
			_, _ = io.Copy(io.Discard, c)
		}
	}
	large := strings.Repeat("x", 1<<20)
	var released chan struct{}
	return []fault{
		{lyingEndpoint, does(writes("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "")), tr.endpoint.well, fails},
		{"endpoint is down", func() { tr.endpoint.down(); tr.Purge(tr.t, tr.redis) }, tr.endpoint.up, fails},
		{"endpoint is slow", func() {
			released = make(chan struct{})
			gate := released
			does(func(http.ResponseWriter, *http.Request) { <-gate })()
		}, func() { close(released); tr.endpoint.well() }, says{}},
		{"endpoint answers 429", does(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}), tr.endpoint.well, fails},
		{"endpoint's header has no end", does(writes("HTTP/1.1 200 OK\r\nX: ", large)), tr.endpoint.well, fails},
		{"endpoint answers without end", does(writes("HTTP/1.1 200 OK\r\n\r\n", large)), tr.endpoint.well, says{}},
		{"purges storm", func() {
			for range 50 {
				tr.Purge(tr.t, tr.redis)
			}
		}, none, says{}},
	}
}

// isNotified waits until the endpoint was notified of the document that visitors get.
func (tr *trial) isNotified(name string) {
	tr.t.Helper()
	testkit.Eventually(tr.t, name+": the endpoint is notified of the present document", func() bool {
		header, err := tr.banners()
		etag := tr.endpoint.etag.Load()
		return err == nil && etag != nil && *etag == header.Get("ETag")
	})
}
