package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"vitrine/cache"
	"vitrine/cache/embedded"
	"vitrine/config"
	"vitrine/proxy"
	"vitrine/proxy/listen"
	"vitrine/proxy/metrics"
	"vitrine/proxy/openapi"
	"vitrine/proxy/operator"
	"vitrine/proxy/operator/webhook"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// service is everything that serves, wired. Make it with open, serve with
// run, and close it after run has returned, or instead of running it.
type service struct {
	cfg         config.Config
	started     time.Time
	log         *slog.Logger
	public      net.Listener
	operator    net.Listener        // nil when the operator's address is off
	certificate *listen.Certificate // nil without TLS
	client      atomic.Pointer[upstream.Client]
	level       *slog.LevelVar                // of log; nil when it cannot change
	present     atomic.Pointer[config.Config] // cfg, with what was reloaded since
	embedded    *embedded.Store               // nil where Redis is another process
	store       *cache.Store
	loaders     map[shape.Resource]*loader
	readers     map[shape.Resource]*cache.Reader[*proxy.Prepared]
	proxy       *proxy.Server
	admin       *operator.Server // nil when the operator's address is off
	meter       *metrics.Meter
	roster      roster
	hook        *webhook.Hook // nil when there is none
	tracing     *tracing      // nil when nothing is traced
	stopBy      time.Time     // when the time for a shutdown is up; zero before one
}

// open takes the addresses first, so that one that is in use is told before
// anything else is begun, then opens the store and wires the rest. Neither
// Redis nor the CMS need be there. On an error nothing is left open.
func open(ctx context.Context, cfg config.Config, log *slog.Logger) (_ *service, err error) {
	s := &service{cfg: cfg, started: time.Now(), log: log}
	s.present.Store(&cfg)
	if s.meter, err = metrics.New(metrics.Options{Look: s.look}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.public, s.certificate, err = openPublic(ctx, cfg, log); err != nil {
		return nil, err
	}
	if cfg.Admin.Listen != "" {
		if s.operator, err = openListener(ctx, "admin.listen", cfg.Admin.Listen); err != nil {
			return nil, err
		}
	}
	if s.tracing, err = openTracing(ctx, log); err != nil {
		return nil, err
	}
	client, err := newUpstream(cfg, log, s.tracing)
	if err != nil {
		return nil, err
	}
	s.client.Store(client)
	if s.embedded, err = openEmbedded(cfg, log); err != nil {
		return nil, err
	}
	if s.store, err = openStore(ctx, cfg, s.embedded, log, events(s.meter)); err != nil {
		return nil, err
	}
	if err = s.openReaders(); err != nil {
		return nil, err
	}
	return s, s.openServers() //nolint:contextcheck // a request does not end with the opening of the servers
}

// openEmbedded opens the store inside this process, where one is configured. Any number of services
// can use it, one after the other or at once.
func openEmbedded(cfg config.Config, log *slog.Logger) (*embedded.Store, error) {
	address, ok := strings.CutPrefix(cfg.Redis.URL.Reveal(), "embedded:")
	if !ok {
		return nil, nil //nolint:nilnil // none is configured
	}
	local, err := embedded.Start(address, log)
	switch {
	case err == nil:
		return local, nil
	case isSystemError(err):
		return nil, cannotListen("redis.url", "embedded:", address, err)
	}
	return nil, cfg.Refuse("redis.url", err)
}

// openStore opens the configured Redis, or local if that is not nil.
func openStore(ctx context.Context, cfg config.Config, local *embedded.Store, log *slog.Logger, events cache.Events) (*cache.Store, error) {
	url := cfg.Redis.URL.Reveal()
	if local != nil {
		url = local.URL()
	}
	store, err := cache.Open(ctx, cache.Options{URL: url, Prefix: cfg.Redis.Prefix, Logger: log, Events: events})
	if err != nil {
		return nil, cfg.Refuse("redis.url", err)
	}
	return store, nil
}

// isSystemError tells what the system refused from what cannot be meant.
func isSystemError(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok
}

// ttl is how long each resource is fresh.
func (s *service) ttl() map[shape.Resource]time.Duration { return ttlOf(s.present.Load()) }

func (s *service) openReaders() error {
	s.loaders = make(map[shape.Resource]*loader)
	s.readers = make(map[shape.Resource]*cache.Reader[*proxy.Prepared])
	for _, r := range shape.Resources() {
		policy := policyOf(&s.cfg, r, s.client.Load().Fingerprint())
		s.loaders[r] = &loader{client: &s.client, resource: r, meter: s.meter, teller: teller{resource: r, log: s.log}}
		reader, err := cache.NewReader(s.store, string(r), cache.ReaderOptions[*proxy.Prepared]{
			TTL:                  policy.TTL,
			StaleWhileRevalidate: policy.StaleWhileRevalidate,
			StaleIfError:         policy.StaleIfError,
			FetchTimeout:         policy.FetchTimeout,
			Source:               policy.Source,
			Loader:               s.loaders[r],
			Prepare:              proxy.Prepare(r),
			ErrorCode:            upstream.Code,
			CodeError:            upstream.FromCode,
		})
		if err != nil {
			return fmt.Errorf("read %s: %w", r, err)
		}
		held := reader.Snapshot
		s.loaders[r].teller.held.Store(&held)
		s.readers[r] = reader
	}
	return nil
}

func (s *service) openServers() (err error) {
	sources := make(map[shape.Resource]proxy.Source)
	for r, reader := range s.readers {
		sources[r] = reader
	}
	terms := termsOf(&s.cfg)
	if s.proxy, err = proxy.New(proxy.Options{
		Sources:              sources,
		MaxAge:               terms.MaxAge,
		StaleWhileRevalidate: terms.StaleWhileRevalidate,
		StaleIfError:         terms.StaleIfError,
		CORSOrigins:          terms.CORSOrigins,
		Logger:               s.log,
		AccessLog:            accessLog(s.log, s.cfg.Log),
		Meter:                s.meter,
		Tracer:               s.tracing.tracer("vitrine/proxy"),

		CDNMaxAge:               terms.CDNMaxAge,
		CDNStaleWhileRevalidate: terms.CDNStaleWhileRevalidate,
		HSTS:                    terms.HSTS,

		TrustedProxies:    s.cfg.Proxies.Trusted,
		ClientHeader:      s.cfg.Proxies.ClientHeader,
		RequestsPerSecond: float64(s.cfg.Limits.Rate),
		Burst:             s.cfg.Limits.Burst,
		MaxConnections:    s.cfg.Limits.Connections,
		MaxTargetBytes:    int(s.cfg.Limits.Target),
		MaxHeaderBytes:    int(s.cfg.Limits.Header),
		MaxBodyBytes:      int(s.cfg.Limits.Body),
		ReadTimeout:       s.cfg.Limits.ReadTimeout,
		WriteTimeout:      s.cfg.Limits.WriteTimeout,
		IdleTimeout:       s.cfg.Limits.IdleTimeout,
	}); err != nil {
		return err
	}
	if s.operator == nil {
		return nil
	}
	options := operator.Options{
		Checks: s.checks(), Status: s.status, Document: s.document, Meter: s.meter,
		Token: s.cfg.Admin.Token.Reveal(), Logger: s.log, OpenAPI: openapi.Document(), Profiles: s.cfg.Admin.Pprof == "on",
	}
	if s.hook, err = s.newHook(); err != nil {
		return err
	}
	if s.hook != nil {
		options.Hook = s.hook
	}
	s.admin, err = operator.New(options)
	return err
}

// run serves until ctx ends or a server fails, then drains. Everything it
// started has ended when it returns. It is called once.
func (s *service) run(ctx context.Context) error {
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return s.proxy.Serve(s.public) })
	if s.admin != nil {
		group.Go(func() error { return s.admin.Serve(s.operator) })
	}
	if s.certificate != nil {
		group.Go(func() error {
			s.certificate.Watch(running)
			return nil
		})
	}
	if s.hook != nil {
		group.Go(func() error {
			s.hook.Run(running)
			return nil
		})
	}
	group.Go(func() error {
		s.meter.Run(running)
		return nil
	})
	group.Go(func() error {
		s.report(running)
		return nil
	})
	// The first visitor should find what he asks for; nobody waits for it.
	for r, reader := range s.readers {
		group.Go(func() error {
			if _, err := reader.Get(running); err != nil && running.Err() == nil {
				s.log.WarnContext(running, "not warm yet", "resource", r, "error", err)
			}
			return nil
		})
	}
	group.Go(func() error {
		<-running.Done()
		return s.drain(context.WithoutCancel(ctx))
	})
	return group.Wait()
}

// drain ends the servers: first they say that they are going, then, after the
// delay in which a balancer may notice, requests under way finish. Those that
// do not in time are cut off, which is logged and no failure of the stop.
func (s *service) drain(ctx context.Context) error {
	bounds := s.present.Load().Shutdown
	s.log.InfoContext(ctx, "stopping", "delay", bounds.Delay, "timeout", bounds.Timeout)
	if s.admin != nil {
		s.admin.SetDraining()
	}
	if bounds.Delay > 0 {
		<-time.After(bounds.Delay)
	}
	s.stopBy = time.Now().Add(bounds.Timeout)
	ctx, cancel := context.WithDeadline(ctx, s.stopBy)
	defer cancel()
	err := s.proxy.Shutdown(ctx)
	if s.admin != nil {
		err = errors.Join(err, s.admin.Shutdown(ctx))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.WarnContext(ctx, "requests were cut off", "error", err)
		return nil
	}
	return err
}

// close gives back what open took.
func (s *service) close() error {
	var errs []error
	for _, l := range []net.Listener{s.public, s.operator} {
		if l != nil {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	if s.embedded != nil {
		s.embedded.Close()
	}
	if client := s.client.Load(); client != nil {
		client.Close()
	}
	if s.stopBy.IsZero() { // it never ran
		s.stopBy = time.Now().Add(s.cfg.Shutdown.Timeout)
	}
	s.tracing.close(s.log, s.stopBy) // after the store, whose fetches make spans
	return errors.Join(errs...)
}
