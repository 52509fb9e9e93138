package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"vitrine/cmd/testkit"
)

// A hook is a webhook that vitrine tells of changes and purges, and that can do harm.
type hook struct {
	*httptest.Server
	answer atomic.Pointer[http.HandlerFunc]
	etag   atomic.Pointer[string] // of the document that it was told of last
}

func newHook(t *testing.T) *hook {
	h := &hook{}
	h.well()
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*h.answer.Load())(w, r) }))
	t.Cleanup(h.Close)
	return h
}

// configuration is a file that names the hook as a target.
func (h *hook) configuration(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "vitrine.yaml")
	text := fmt.Sprintf("notify:\n  - {name: hook, preset: webhook, url: '%s', events: [changed, purged]}\n", h.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// well has the hook accept what it is told.
func (h *hook) well() {
	h.does(func(_ http.ResponseWriter, r *http.Request) {
		var e struct{ Resource, ETag string }
		body, err := io.ReadAll(r.Body)
		if err == nil && json.Unmarshal(body, &e) == nil && e.Resource == "banners" {
			h.etag.Store(&e.ETag)
		}
	})
}

func (h *hook) does(f http.HandlerFunc) { h.answer.Store(&f) }

// faultsOfTheTarget begin with a purge, which it is to be told of.
func (tr *trial) faultsOfTheTarget() []fault {
	fails := says{"", "cannot tell a target", `vitrine_notifications_total{outcome="failed",target="hook"} `, `"error": "POST `}
	does := func(f http.HandlerFunc) func() {
		return func() {
			tr.hook.does(f)
			tr.Purge(tr.t, tr.redis)
		}
	}
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	var released chan struct{}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for block := make([]byte, 1<<20); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	return []fault{
		{"target is down", does(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), tr.hook.well, fails},
		{"target is slow", func() {
			released = make(chan struct{})
			gate := released
			does(func(http.ResponseWriter, *http.Request) { <-gate })()
		}, func() { close(released); tr.hook.well() }, says{}},
		{"target answers 429", does(status(429, "Retry-After", "1")), tr.hook.well, fails},
		{"target answers 500", does(status(500)), tr.hook.well, fails},
		{"target redirects", does(status(307, "Location", "http://127.0.0.1:1/")), tr.hook.well, fails},
		{"target answers without end", does(endless), tr.hook.well, says{}},
		{"purges storm", func() {
			for range 50 {
				tr.Purge(tr.t, tr.redis)
			}
		}, none, says{}},
	}
}

// isTold waits until the hook was told of the document that visitors get.
func (tr *trial) isTold(name string) {
	tr.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	testkit.Eventually(tr.t, name+": the target is told of what is served", func() bool {
		response, err := client.Get("http://" + tr.public + "/gvapp/singlebanner")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		told := tr.hook.etag.Load()
		return told != nil && *told == response.Header.Get("ETag")
	})
}
