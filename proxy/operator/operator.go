// Package operator is the operator's address: whether the process lives, whether it is ready, and what it holds.
//
// One request shows its token, where one is set, and goes to the handler at its path. /livez answers as long as the
// process can. /readyz asks every resource at once whether it can be answered with 200, within a bound of time, and
// says no from the moment on that the process is told to drain. /api/status is the [Status], as JSON; the page at / is
// made of the same, and asks for itself again every two seconds. /documents/ reads out what is held, and /metrics is
// for Prometheus. None of these fetches anything, or keeps anything fresh by being looked at. Whatever goes wrong is
// JSON too.
//
// It is served by net/http and not by Fiber: what is added here over time (metrics, profiles) comes as net/http
// handlers, and nothing of it has to be fast.
package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"vitrine/cache"
	"vitrine/proxy/metrics"
	"vitrine/upstream/shape"
)

// Options are what the operator's address tells of.
type Options struct {
	// Checks say whether the process is ready, by name: nil, or why not. They run concurrently, under a context that
	// ends with ReadyTimeout, and have to end with it. Empty means that the process is ready while it is not draining.
	Checks map[string]func(context.Context) error
	// Status returns what /api/status and the page show, as far as it is not counted by Meter. It must not wait for
	// anything. Nil means that little is known.
	Status func() Status
	// Document returns what is held of a resource, nil when nothing is. Nil means that no documents can be read here.
	Document func(shape.Resource) *cache.Document
	// Meter is what has been counted. Nil means nothing, and no /metrics.
	Meter *metrics.Meter
	// OpenAPI is what /openapi.json shows. Nil means that there is no such path.
	OpenAPI []byte
	// Profiles says that Go's profiles are at /debug/pprof/, for whoever has the token.
	Profiles bool
	// Hook takes what is sent to HookPath, and sees to it itself who may. Nil means that there is no such path.
	Hook http.Handler
	// ReadyTimeout bounds /readyz. Zero means 2 s.
	ReadyTimeout time.Duration
	// Token is asked for by everything but /livez and /readyz; see also SetToken. Empty asks for none, which is for
	// an address that nobody else reaches.
	Token string
	// Logger gets what goes wrong. Nil means slog.Default().
	Logger *slog.Logger
}

// Server answers at the operator's address.
type Server struct {
	options  Options
	http     *http.Server
	guard    guard
	draining atomic.Bool
	items    itemCounts
}

// New makes a server that is ready to Serve. It fails if the options are not usable.
func New(o Options) (*Server, error) {
	if o.ReadyTimeout < 0 {
		return nil, fmt.Errorf("operator: ReadyTimeout is negative: %v", o.ReadyTimeout)
	}
	for name, check := range o.Checks {
		if check == nil {
			return nil, fmt.Errorf("operator: no check for %s", name)
		}
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = 2 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Server{options: o}
	s.guard.set(o.Token)
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", get(s.livez))
	mux.HandleFunc("/readyz", get(s.readyz))
	mux.HandleFunc("/api/status", get(s.status))
	s.pages(mux)
	if o.Meter != nil {
		metrics, err := metricsOf(o.Meter, o.Logger)
		if err != nil {
			return nil, err
		}
		mux.Handle("/metrics", get(metrics.ServeHTTP))
	}
	if o.OpenAPI != nil {
		mux.HandleFunc("/openapi.json", get(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, o.OpenAPI) }))
	}
	if o.Profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	if o.Hook != nil {
		mux.Handle(HookPath, o.Hook)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { s.fail(w, http.StatusNotFound, "Not found.") })
	s.http = &http.Server{
		Handler:           s.guard.protect(mux),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Serve answers requests on ln until Shutdown is called, and then returns nil. It closes ln.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("operator: serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// SetDraining makes /readyz say no from now on, so that no new requests are sent here.
func (s *Server) SetDraining() { s.draining.Store(true) }

// Shutdown stops accepting and lets the requests under way finish. If ctx ends first, its error is returned.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("operator: shut down: %w", err), s.http.Close())
	}
	return nil
}

// A readiness is the answer of /readyz.
type readiness struct {
	Ready    bool              `json:"ready"`
	Draining bool              `json:"draining"`
	Checks   map[string]string `json:"checks"` // "ok", or why not, by name
}

func (s *Server) livez(w http.ResponseWriter, _ *http.Request) {
	s.answer(w, http.StatusOK, struct {
		Alive bool `json:"alive"`
	}{true})
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() { // at once: whoever polls has no time to lose, and what the checks say changes nothing
		s.answer(w, http.StatusServiceUnavailable, readiness{Draining: true, Checks: map[string]string{}})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.options.ReadyTimeout)
	defer cancel()
	state := readiness{Ready: true, Checks: map[string]string{}}
	for name, err := range s.check(ctx) {
		state.Checks[name] = "ok"
		if err != nil {
			state.Ready = false
			state.Checks[name] = err.Error()
		}
	}
	status := http.StatusOK
	if !state.Ready {
		status = http.StatusServiceUnavailable
	}
	s.answer(w, status, state)
}

// check runs all checks and waits for them.
func (s *Server) check(ctx context.Context) map[string]error {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards results
	results := make(map[string]error, len(s.options.Checks))
	for name, check := range s.options.Checks {
		wg.Go(func() {
			err := check(ctx)
			mu.Lock()
			defer mu.Unlock()
			results[name] = err
		})
	}
	wg.Wait()
	return results
}

// get lets GET and HEAD through.
func get(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next(w, r)
			return
		}
		w.Header().Set("Allow", "GET, HEAD")
		writeJSON(w, http.StatusMethodNotAllowed, []byte(`{"detail":"Method not allowed."}`))
	}
}

func (s *Server) fail(w http.ResponseWriter, status int, detail string) {
	s.answer(w, status, struct {
		Detail string `json:"detail"`
	}{detail})
}

func (s *Server) answer(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		s.options.Logger.Error("operator's answer cannot be encoded", "error", err)
		status, body = http.StatusInternalServerError, []byte(`{"detail":"Internal server error."}`)
	}
	writeJSON(w, status, append(body, '\n'))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an operator who has gone needs no answer
}
