package faults

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
)

// A hook is a webhook, over TLS, that vitrine tells of changes and purges, and that can do harm.
type hook struct {
	t                                  *testing.T
	address                            string
	server                             *http.Server
	listener                           net.Listener
	trusted                            string // the file of the authorities that vitrine trusts
	valid, unknown, elsewhere, expired *tls.Certificate
	shows                              atomic.Pointer[tls.Certificate] // to whoever connects
	answer                             atomic.Pointer[http.HandlerFunc]
	etag                               atomic.Pointer[string] // of the document that it was told of last
}

// newHook starts a hook to whose every request is a connection of its own.
func newHook(t *testing.T) *hook {
	h := &hook{t: t, address: harness.FreeAddress(t), trusted: filepath.Join(t.TempDir(), "trusted.pem")}
	h.server = &http.Server{
		Handler:  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*h.answer.Load())(w, r) }),
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	h.server.SetKeepAlivesEnabled(false)
	local, other, day := net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2), 24*time.Hour // the clocks of both can be an hour off
	h.valid, h.unknown = h.certificate(true, local, day), h.certificate(false, local, day)
	h.elsewhere, h.expired = h.certificate(true, other, day), h.certificate(true, local, -day)
	h.shows.Store(h.valid)
	h.well()
	h.up()
	t.Cleanup(func() { _ = h.server.Close() })
	return h
}

func (h *hook) up() {
	l, err := net.Listen("tcp", h.address)
	if err != nil {
		h.t.Error(err)
		return
	}
	h.listener = tls.NewListener(l, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return h.shows.Load(), nil }})
	go func() { _ = h.server.Serve(h.listener) }() // until down, or the end
}

func (h *hook) down() { _ = h.listener.Close() } // nobody listens then

// certificate makes one that is its own authority, which vitrine trusts or not, until a time from now.
func (h *hook) certificate(trusted bool, host net.IP, until time.Duration) *tls.Certificate {
	public, private, err := ed25519.GenerateKey(nil)
	testkit.Must(h.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IPAddresses: []net.IP{host},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(until), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	testkit.Must(h.t, err)
	if trusted {
		file, err := os.OpenFile(h.trusted, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			err = errors.Join(pem.Encode(file, &pem.Block{Type: "CERTIFICATE", Bytes: der}), file.Close())
		}
		testkit.Must(h.t, err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

// configuration is a file that names the hook as a target.
func (h *hook) configuration() string {
	return harness.File(h.t, "vitrine.yaml", fmt.Sprintf("notify: [{name: hook, preset: webhook, url: 'https://%s', events: [changed, purged]}]\n", h.address))
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
	fails := says{"", "cannot notify an endpoint", `vitrine_notifications_total{outcome="failed",target="hook"} `, `"error": "POST `}
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
	// writes writes the first text and then the other, again and again, for as long as it is read.
	writes := func(first, again string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				tr.t.Error(err)
				return
			}
			defer c.Close()
			for text := first; err == nil; text = again {
				_, err = io.WriteString(c, text)
			}
		}
	}
	shows := func(name string, c *tls.Certificate, why string) fault {
		refused := fails
		refused.status += "https://" + tr.hook.address + ": tls: failed to verify certificate: x509: " + why
		return fault{name, func() {
			tr.hook.shows.Store(c)
			tr.Purge(tr.t, tr.redis)
		}, func() { tr.hook.shows.Store(tr.hook.valid) }, refused}
	}
	large := strings.Repeat("x", 1<<20)
	var released chan struct{}
	return []fault{
		{"target is down", func() { tr.hook.down(); tr.Purge(tr.t, tr.redis) }, tr.hook.up, fails},
		{"target resets connections", does(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), tr.hook.well, fails},
		{"target is slow", func() {
			released = make(chan struct{})
			gate := released
			does(func(http.ResponseWriter, *http.Request) { <-gate })()
		}, func() { close(released); tr.hook.well() }, says{}},
		shows("target's certificate is of an unknown authority", tr.hook.unknown, "certificate signed by unknown authority"),
		shows("target's certificate is of another host", tr.hook.elsewhere, "certificate is valid for 127.0.0.2"),
		shows("target's certificate has expired", tr.hook.expired, "certificate has expired"),
		{"target answers 429", does(status(429, "Retry-After", "1")), tr.hook.well, fails},
		{"target answers 500", does(status(500)), tr.hook.well, fails},
		{"target redirects", does(status(307, "Location", "http://127.0.0.1:1/")), tr.hook.well, fails},
		{"target's header has no end", does(writes("HTTP/1.1 200 OK\r\nX: ", large)), tr.hook.well, fails},
		{"target answers without end", does(writes("HTTP/1.1 200 OK\r\n\r\n", large)), tr.hook.well, says{}},
		{"target switches protocols, and is silent", does(func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				tr.t.Error(err)
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			_, _ = io.Copy(io.Discard, c) // until vitrine closes it
		}), tr.hook.well, fails},
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
	testkit.Eventually(tr.t, name+": the target is told of what is served", func() bool {
		header, err := tr.banners()
		told := tr.hook.etag.Load()
		return err == nil && told != nil && *told == header.Get("ETag")
	})
}
