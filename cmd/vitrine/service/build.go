package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"vitrine/cache"
	"vitrine/cache/embedded"
	"vitrine/cmd/vitrine/loader"
	"vitrine/cmd/vitrine/logs"
	"vitrine/config"
	"vitrine/docs"
	"vitrine/proxy"
	"vitrine/proxy/notify"
	"vitrine/proxy/openapi"
	"vitrine/proxy/operator"
	"vitrine/proxy/processors"
	"vitrine/proxy/represent"
	"vitrine/upstream"
	"vitrine/upstream/guard"
	"vitrine/upstream/shape"
)

// build reads the rest of the configuration first, then opens the addresses if there is no service
// yet, so that mistakes and an address in use are reported before anything else happens, then the
// store, and wires the rest. Neither Redis nor the CMS needs to be reachable. After an error nothing
// is left open but addresses.
func (p *process) build(ctx context.Context, cfg config.Config) (_ *service, err error) {
	s := &service{process: p, cfg: cfg, log: logs.New(p.Stderr, cfg.Log), documents: make(chan cache.Sight, 8)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.client, err = NewUpstream(cfg, s.log); err != nil { //nolint:contextcheck // the breaker logs changes of state, which belong to no request
		return nil, err
	}
	// All are tried, so that addresses in use are reported together.
	if err = errors.Join(p.openAddresses(ctx, cfg, s.log), s.openLocal()); err != nil { //nolint:contextcheck // the embedded store outlives the service
		return nil, err
	}
	s.notifier = notify.New(notify.Options{Targets: cfg.Notify, Bound: cfg.Redis.PurgeBound, Count: s.meter.Notified, Logger: s.log})
	if err = s.openStore(ctx); err != nil {
		return nil, err
	}
	if err = s.openReaders(); err != nil {
		return nil, err
	}
	return s, s.openServers() //nolint:contextcheck // a request does not end with open's context
}

// openLocal opens the embedded store, unless Redis is another process or the present service has it.
func (s *service) openLocal() (err error) {
	address, ok := strings.CutPrefix(s.cfg.Redis.URL.Reveal(), "embedded:")
	if !ok {
		return nil
	}
	if before := s.present.Load(); before != nil && before.local != nil && storeURL(before.cfg) == storeURL(s.cfg) {
		s.local = before.local
		return nil
	}
	s.local, err = embedded.Start(address, s.log)
	if _, bySystem := errors.AsType[syscall.Errno](err); bySystem {
		return cannotListen("redis.url", err)
	} else if err != nil {
		return s.cfg.Refuse("redis.url", err)
	}
	return nil
}

// OpenStore opens the store of a configuration for a command.
func OpenStore(ctx context.Context, cfg config.Config) (*cache.Store, error) {
	store, err := cache.Open(ctx, storeOptions(cfg))
	if err != nil {
		return nil, cfg.Refuse("redis.url", err)
	}
	return store, nil
}

// storeOptions are the options of a store that follow from a configuration. The history's bodies are
// bounded, since others can plant them; a normalized document can be longer than what was received.
func storeOptions(cfg config.Config) cache.Options {
	return cache.Options{
		URL: storeURL(cfg), MostBody: 2 * int(cfg.Upstream.MaxBytes), Prefix: cfg.Redis.Prefix, PurgeBound: cfg.Redis.PurgeBound,
		StaleWindow: max(cfg.StaleWhileRevalidate, cfg.StaleIfError),
	}
}

// storeURL is the store to open for a configuration: an embedded one is reached as a Redis, in the
// process that has it.
func storeURL(cfg config.Config) string {
	if address, local := strings.CutPrefix(cfg.Redis.URL.Reveal(), "embedded:"); local {
		return embedded.URL(address)
	}
	return cfg.Redis.URL.Reveal()
}

func (s *service) openStore(ctx context.Context) (err error) {
	o := storeOptions(s.cfg)
	if s.local != nil {
		o.URL = s.local.URL()
	}
	s.redisURL, o.Events, o.Attentive = o.URL, s.events(), s.cfg.HasCache() || s.cfg.Refresh == "always"
	o.Logger = slog.New(whilePresent{s.log.Handler(), s.isPresent})
	if s.store, err = cache.Open(ctx, o); err != nil {
		return s.cfg.Refuse("redis.url", err)
	}
	return nil
}

func (s *service) openReaders() error {
	s.loaders = make(map[shape.Resource]*loader.Loader)
	s.readers = make(map[shape.Resource]*cache.Reader[*represent.Document])
	builders := processors.New()
	if windows := max(s.cfg.StaleWhileRevalidate, s.cfg.StaleIfError); s.cfg.Guard.Shrink > 0 && windows < time.Second {
		s.log.Warn("the guard holds nothing back: no copy is served past its freshness", "stale_while_revalidate", s.cfg.StaleWhileRevalidate, "stale_if_error", s.cfg.StaleIfError)
	}
	for _, r := range shape.Resources() {
		s.loaders[r] = loader.New(s.client, r, Policy(s.cfg), s.meter, s.log)
		reader, err := cache.NewReader(s.store, string(r), cache.ReaderOptions[*represent.Document]{
			TTL:                  s.cfg.TTL.Of(string(r)),
			StaleWhileRevalidate: s.cfg.StaleWhileRevalidate,
			StaleIfError:         s.cfg.StaleIfError,
			FetchTimeout:         s.cfg.Upstream.Timeout,
			Source:               s.client.Fingerprint(),
			Loader:               s.loaders[r],
			Unable:               s.client.Unable,
			Prepare:              represent.Prepare(r, builders),
			Guard: func(held, loaded *represent.Document) guard.Findings {
				return Policy(s.cfg).Judge(held.Survey, loaded.Survey).Held()
			},
			GuardHold: s.cfg.Guard.Hold,
			ErrorCode: upstream.Code,
			CodeError: upstream.FromCode,
			Always:    s.cfg.Refresh == "always",
			LastGood:  s.cfg.LastGood,
			Describe:  describe(r),
		})
		if err != nil {
			return fmt.Errorf("read %s: %w", r, err)
		}
		held := func() cache.Snapshot[*represent.Document] {
			if now := s.present.Load(); now != nil && now != s { // which visitors get, until this one takes over
				return now.readers[r].Snapshot()
			}
			return reader.Snapshot()
		}
		s.loaders[r].SetHeld(held)
		s.readers[r] = reader
	}
	return nil
}

func (s *service) openServers() (err error) {
	documents, checks := make(map[shape.Resource]proxy.Documents), make(map[shape.Resource]func(context.Context) error)
	for r, reader := range s.readers {
		documents[r] = reader
		checks[r] = func(ctx context.Context) error {
			_, err := reader.Get(ctx)
			return err
		}
	}
	if s.proxy, err = proxy.New(proxy.Options{
		Documents:               documents,
		MaxAge:                  s.cfg.HTTP.MaxAge,
		StaleWhileRevalidate:    s.cfg.StaleWhileRevalidate,
		StaleIfError:            s.cfg.StaleIfError,
		CDNMaxAge:               s.cfg.HTTP.CDNMaxAge,
		CDNTold:                 s.cfg.HasCache(),
		TagHeaders:              s.cfg.TagHeaders(),
		CDNStaleWhileRevalidate: s.cfg.HTTP.CDNStaleWhileRevalidate,
		HSTS:                    s.cfg.HTTP.HSTS,
		CORSOrigins:             s.cfg.CORS.Origins,
		Logger:                  s.log,
		AccessLog:               logs.NewAccess(s.Stderr, s.cfg.Log),
		Meter:                   s.meter,
		TrustedProxies:          s.cfg.Proxies.Trusted,
		ClientHeader:            s.cfg.Proxies.ClientHeader,
		Limits: proxy.Limits{
			MaxConnections: maxConnections(s.cfg.Limits),
			MaxTargetBytes: int(s.cfg.Limits.Target),
			MaxHeaderBytes: int(s.cfg.Limits.Header),
			MaxBodyBytes:   int(s.cfg.Limits.Body),
			ReadTimeout:    s.cfg.Limits.ReadTimeout,
			WriteTimeout:   s.cfg.Limits.WriteTimeout,
			IdleTimeout:    s.cfg.Limits.IdleTimeout,
		},
	}); err != nil {
		return err
	}
	if s.operator == nil {
		return nil
	}
	s.admin = operator.New(operator.Options{
		Checks: checks, Status: s.status(), Document: s.document, Meter: s.meter, Hook: newHook(s.cfg.Hook, s.store, s.meter, s.log),
		Token: s.cfg.Admin.Token.Reveal(), Listen: s.cfg.Admin.Listen, Hosts: s.cfg.Admin.Hosts, Logger: s.log, OpenAPI: openapi.Document, Runbook: docs.Operations, Profiles: s.cfg.Admin.Pprof == "on",
	})
	return nil
}

// start starts what runs beside requests.
func (s *service) start(ctx context.Context) {
	s.running, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	attend := func(f func(context.Context)) { s.beside.Go(func() { f(s.running) }) }
	attend(s.describeChanges)
	attend(func(ctx context.Context) { s.notifier.Run(ctx, s.store) })
	for r, reader := range s.readers { // so that the first visitor does not wait
		attend(func(ctx context.Context) {
			if _, err := reader.Get(ctx); err != nil { // a failure of this replica's fetch is logged by its loader
				s.log.DebugContext(ctx, "initial fetch failed", "resource", r, "error", err)
			}
		})
	}
}
