// Package proxytest runs vitrine in front of a CMS, for the tests of proxy and of the software
// around it: a client of the CMS, readers on a Redis, and a server on a free port.
package proxytest

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/proxy"
	"vitrine/proxy/represent"
	"vitrine/upstream"
	"vitrine/upstream/exchange"
	"vitrine/upstream/shape"
)

// Options are what a test chooses. The zero value of each field but TTL means what it does in
// [cache.ReaderOptions] and [proxy.Options].
type Options struct {
	TTL                                        time.Duration // zero: a minute
	MaxAge, StaleWhileRevalidate, StaleIfError time.Duration
	CORSOrigins, TrustedProxies                []string
	Listener                                   func(net.Listener) net.Listener // wraps the public one; nil: as it is
}

// Vitrine is a running one.
type Vitrine struct {
	Addr  string // HOST:PORT
	Store *cache.Store
	// Stop ends the server, as the end of the test does.
	Stop func()
}

// Start runs vitrine in front of the CMS at cms, on the Redis at redis, until the test ends.
func Start(t testing.TB, cms, redis string, o Options) *Vitrine {
	t.Helper()
	if o.TTL == 0 {
		o.TTL = time.Minute
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	quiet := slog.New(slog.DiscardHandler)
	client, err := upstream.New(upstream.Options{URL: cms, Options: exchange.Options{Logger: quiet}})
	must(err)
	store, err := cache.Open(t.Context(), cache.Options{URL: redis, Logger: quiet})
	must(err)
	documents := map[shape.Resource]proxy.Documents{}
	for _, r := range shape.Resources() {
		documents[r], err = cache.NewReader(store, string(r), cache.ReaderOptions[*represent.Document]{
			TTL: o.TTL, StaleWhileRevalidate: o.StaleWhileRevalidate, StaleIfError: o.StaleIfError,
			Source: client.Fingerprint(), Prepare: represent.Prepare(r), ErrorCode: upstream.Code, CodeError: upstream.FromCode,
			Loader: loader(client, r),
		})
		must(err)
	}
	server, err := proxy.New(proxy.Options{
		Documents: documents, MaxAge: o.MaxAge, StaleWhileRevalidate: o.StaleWhileRevalidate, StaleIfError: o.StaleIfError,
		CORSOrigins: o.CORSOrigins, TrustedProxies: o.TrustedProxies, Logger: quiet,
	})
	must(err)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(err)
	v := &Vitrine{Addr: listener.Addr().String(), Store: store}
	if o.Listener != nil {
		listener = o.Listener(listener)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	v.Stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		for _, err := range []error{server.Shutdown(ctx), <-served, store.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
		client.Close()
	})
	t.Cleanup(v.Stop)
	return v
}

// loader fetches r with the validators of the copy held.
func loader(client *upstream.Client, r shape.Resource) cache.LoaderFunc {
	return func(ctx context.Context, _ string, held *cache.Document) (cache.Loaded, error) {
		var known upstream.Validators
		if held != nil {
			known = upstream.Validators{ETag: held.UpstreamETag, LastModified: held.UpstreamLastModified}
		}
		got, err := client.Fetch(ctx, r, known)
		return cache.Loaded{
			NotModified: got.NotModified, Body: got.Document.Body, Status: got.Status,
			UpstreamETag: got.Validators.ETag, UpstreamLastModified: got.Validators.LastModified,
		}, err
	}
}
