package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"vitrine/proxy/swap"
)

// MaxConnections is how many connections an address has.
const MaxConnections = 256

// An Address has the connections to the admin address. Each request is answered by the present
// [Server], which [Address.Swap] replaces while they stay.
type Address struct {
	http    *http.Server
	present atomic.Pointer[Server]
}

// NewAddress makes an address whose requests s answers at first. Log receives what clients do
// wrong, at debug.
func NewAddress(s *Server, log *slog.Logger) *Address {
	a := new(Address)
	a.present.Store(s)
	a.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s := swap.Begin(&a.present)
			defer s.End()
			s.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute, // a profile takes half of it
		IdleTimeout:       10 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return a
}

// Swap has next answer from now on. The server before answers the requests that it has begun, until
// its Drain returns.
func (a *Address) Swap(next *Server) { a.present.Store(next) }

// Serve has requests on ln answered until Shutdown is called or ln is closed, and then returns nil.
// It closes ln. At most so many connections are open; further ones wait to be accepted.
func (a *Address) Serve(ln net.Listener, most int) error {
	if err := a.http.Serve(netutil.LimitListener(ln, most)); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("operator: serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// Shutdown stops accepting and lets the requests under way finish. If ctx ends first, its error is
// returned.
func (a *Address) Shutdown(ctx context.Context) error {
	if err := a.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("operator: shut down: %w", err), a.http.Close())
	}
	return nil
}
