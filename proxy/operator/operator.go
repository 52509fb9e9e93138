// Package operator serves the operator's address: health checks, status, metrics and pages.
//
// One request goes through it in this order:
//
//  1. a Host that is not this server is refused, and the token is required if there is one
//     (guard.go);
//  2. the handler of the path answers. /livez answers as long as the process can. /readyz requests
//     every document, within a bound of time, and fails while the process drains. /api/status is
//     the [Status] as JSON; the page at / is made of the same, and updates itself every two
//     seconds. /documents/ shows the copies held, and /metrics is for Prometheus. Errors are JSON
//     too.
//
// Apart from /readyz, nothing here fetches a document, or keeps one fresh. The package uses
// net/http, not Fiber: metrics and profiles are net/http handlers, and speed does not matter.
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"vitrine/proxy/operator/webhook"
)

// Server answers at the operator's address.
type Server struct {
	http        *http.Server
	connections *connections
	options     Options
	draining    atomic.Bool
}

// New makes a server that is ready to Serve.
func New(o Options) *Server {
	o.ReadyTimeout, o.Logger = cmp.Or(o.ReadyTimeout, 2*time.Second), cmp.Or(o.Logger, slog.Default())
	s := &Server{connections: newConnections(), options: o}
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", get(func(w http.ResponseWriter, _ *http.Request) {
		webhook.WriteJSON(w, http.StatusOK, []byte(`{"alive":true}`+"\n"))
	}))
	mux.HandleFunc("/readyz", get(s.readyz))
	mux.HandleFunc("/api/status", get(func(w http.ResponseWriter, _ *http.Request) { writeValue(w, http.StatusOK, s.status()) }))
	mux.HandleFunc("/{$}", get(func(w http.ResponseWriter, _ *http.Request) {
		render(w, o.Logger, "overview.html", overviewOf(s.status()))
	}))
	mux.HandleFunc("/documents/{resource}", get(documentPage(o.Document)))
	mux.HandleFunc("/assets/{name}", get(asset))
	mux.Handle("/favicon.ico", http.RedirectHandler("/assets/icon.svg", http.StatusMovedPermanently))
	mux.Handle("/metrics", get(promhttp.HandlerFor(o.Meter, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelError), ErrorHandling: promhttp.HTTPErrorOnError,
	}).ServeHTTP))
	mux.HandleFunc("/openapi.json", get(func(w http.ResponseWriter, _ *http.Request) { webhook.WriteJSON(w, http.StatusOK, o.OpenAPI) }))
	if o.Profiles {
		mux.HandleFunc("/debug/pprof/", get(pprof.Index))
		mux.HandleFunc("/debug/pprof/cmdline", get(pprof.Cmdline))
		mux.HandleFunc("/debug/pprof/profile", get(pprof.Profile))
		mux.HandleFunc("/debug/pprof/symbol", get(pprof.Symbol))
		mux.HandleFunc("/debug/pprof/trace", get(pprof.Trace))
	}
	if o.Hook != nil {
		mux.Handle(webhook.Path, o.Hook)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { webhook.Detail(w, http.StatusNotFound, "Not found.") })
	s.http = &http.Server{
		Handler:           guardHosts(o, protect(o.Token, takeTurns(mux))),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute, // a profile takes half of it
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ConnState:         s.connections.changed,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	return s
}

// Serve answers requests on ln until Shutdown is called or ln is closed, and then returns nil. It
// closes ln.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(pacedListener{ln, s.connections}); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("operator: serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// SetDraining makes /readyz fail from now on, so that no new requests are sent here.
func (s *Server) SetDraining() { s.draining.Store(true) }

// Shutdown stops accepting and lets the requests under way finish. If ctx ends first, its error is
// returned.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("operator: shut down: %w", err), s.http.Close())
	}
	return nil
}

// status is the whole status.
func (s *Server) status() Status {
	st := s.options.Status()
	st.Now, st.Draining = time.Now(), s.draining.Load()
	st.complete(s.options.Meter.Overview())
	return st
}

// readiness is the answer of /readyz.
type readiness struct {
	Ready    bool              `json:"ready"`
	Draining bool              `json:"draining"`
	Checks   map[string]string `json:"checks"` // "ok", or why not, by name
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() { // at once, since the checks cannot change the answer
		writeValue(w, http.StatusServiceUnavailable, readiness{Draining: true, Checks: map[string]string{}})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.options.ReadyTimeout)
	defer cancel()
	state := readiness{Ready: true, Checks: map[string]string{}}
	var wg sync.WaitGroup
	var mu sync.Mutex // guards state
	for name, check := range s.options.Checks {
		wg.Go(func() {
			err := check(ctx)
			mu.Lock()
			defer mu.Unlock()
			state.Checks[name] = "ok"
			if err != nil {
				state.Ready, state.Checks[name] = false, err.Error()
			}
		})
	}
	wg.Wait()
	status := http.StatusOK
	if !state.Ready {
		status = http.StatusServiceUnavailable
	}
	writeValue(w, status, state)
}
