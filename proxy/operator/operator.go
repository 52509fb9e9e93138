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
	"log/slog"
	"net/http"
	_ "net/http/pprof" //nolint:gosec // nothing serves the DefaultServeMux but the token's owner
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"vitrine/proxy/operator/webhook"
	"vitrine/proxy/swap"
	"vitrine/proxy/verdict"
	"vitrine/upstream/shape"
)

// Server answers at the operator's address under one configuration. An [Address] brings it requests.
type Server struct {
	http.Handler
	swap.UnderWay
	options  Options
	draining atomic.Bool
}

// New makes a server.
func New(o Options) *Server {
	o.ReadyTimeout, o.Logger = cmp.Or(o.ReadyTimeout, 2*time.Second), cmp.Or(o.Logger, slog.Default())
	s := &Server{options: o}
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", get(func(w http.ResponseWriter, _ *http.Request) {
		webhook.WriteJSON(w, http.StatusOK, []byte(`{"alive":true}`+"\n"))
	}))
	mux.HandleFunc("/readyz", get(s.readyz))
	mux.HandleFunc("/api/status", get(func(w http.ResponseWriter, _ *http.Request) { writeValue(w, http.StatusOK, s.status()) }))
	mux.HandleFunc("/{$}", get(func(w http.ResponseWriter, _ *http.Request) {
		render(w, o.Logger, "overview.html", s.status())
	}))
	mux.HandleFunc("/documents/{resource}", get(documentPage(o.Document)))
	mux.HandleFunc("/assets/{name}", get(asset))
	mux.HandleFunc("/runbook", get(func(w http.ResponseWriter, _ *http.Request) {
		render(w, o.Logger, "runbook.html", sectionsOf(o.Runbook))
	}))
	mux.Handle("/favicon.ico", http.RedirectHandler("/assets/icon.svg", http.StatusMovedPermanently))
	mux.Handle("/metrics", get(promhttp.HandlerFor(o.Meter, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug), // of clients that have gone
		ErrorHandling: promhttp.HTTPErrorOnError,
	}).ServeHTTP))
	mux.HandleFunc("/openapi.json", get(func(w http.ResponseWriter, _ *http.Request) { webhook.WriteJSON(w, http.StatusOK, o.OpenAPI) }))
	if o.Profiles {
		mux.HandleFunc("/debug/pprof/", get(http.DefaultServeMux.ServeHTTP))
	}
	if o.Hook != nil {
		mux.Handle(webhook.Path, o.Hook)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { webhook.Detail(w, http.StatusNotFound, "Not found.") })
	s.Handler = secure(guardHosts(o, protect(o.Token, mux)))
	return s
}

// SetDraining makes /readyz fail from now on, so that no new requests are sent here.
func (s *Server) SetDraining() { s.draining.Store(true) }

// status is the whole status.
func (s *Server) status() Status {
	st := s.options.Status
	st.Draining = s.draining.Load()
	st.complete(s.options.Meter.Overview())
	return st
}

// readiness is the answer of /readyz.
type readiness struct {
	Ready    bool                      `json:"ready"`
	Draining bool                      `json:"draining"`
	Checks   map[shape.Resource]string `json:"checks"` // "ok", or why not
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	snapshot := s.options.Meter.Snapshot()
	snapshot.Draining = s.draining.Load()
	state := readiness{Draining: snapshot.Draining, Checks: map[shape.Resource]string{}}
	if !state.Draining { // else the checks cannot change the answer
		state.Checks = s.check(r.Context())
	}
	for resource, said := range state.Checks {
		d := snapshot.Documents[resource]
		d.Unanswered = said != "ok"
		snapshot.Documents[resource] = d
	}
	status := http.StatusOK
	if state.Ready = verdict.Of(snapshot).Ready; !state.Ready {
		status = http.StatusServiceUnavailable
	}
	writeValue(w, status, state)
}

// check requests each document, and says "ok", or why it was not answered.
func (s *Server) check(ctx context.Context) map[shape.Resource]string {
	ctx, cancel := context.WithTimeout(ctx, s.options.ReadyTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex // guards all
	all := map[shape.Resource]string{}
	for resource, check := range s.options.Checks {
		wg.Go(func() {
			said := "ok"
			if err := check(ctx); err != nil {
				said = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			all[resource] = said
		})
	}
	wg.Wait()
	return all
}
