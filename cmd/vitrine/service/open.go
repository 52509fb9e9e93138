package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"vitrine/cache"
	"vitrine/cache/embedded"
	"vitrine/config"
	"vitrine/proxy"
	"vitrine/proxy/accesslog"
	"vitrine/proxy/listen"
	"vitrine/proxy/notify"
	"vitrine/proxy/openapi"
	"vitrine/proxy/operator"
	"vitrine/proxy/processors"
	"vitrine/proxy/represent"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// open reads the rest of the configuration first, then opens the addresses, so that mistakes and an
// address in use are reported before anything else happens, then the store, and wires the rest.
// Neither Redis nor the CMS needs to be reachable.
func open(ctx context.Context, cfg config.Config, h *holdings, present *atomic.Pointer[service]) (_ *service, err error) {
	s := &service{holdings: h, present: present, cfg: cfg, log: newLogger(h.Stderr, cfg.Log), documents: make(chan cache.Sight, 8)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.client, err = NewUpstream(cfg, s.log, h.tracing.Tracer("vitrine/upstream")); err != nil { //nolint:contextcheck // the breaker logs changes of state, which belong to no request
		return nil, err
	}
	// All are tried, so that addresses in use are reported together.
	if err = errors.Join(s.openAccessLog(), s.openPublic(ctx), s.openOperator(ctx), s.openLocal()); err != nil { //nolint:contextcheck // the embedded store outlives the service
		return nil, err
	}
	s.notifier = notify.New(notify.Options{Targets: cfg.Notify, Bound: cfg.Redis.PurgeBound, Count: s.meter.Notified, Compare: s.compared.of, Logger: s.log})
	if err = s.openStore(ctx); err != nil {
		return nil, err
	}
	if err = s.openReaders(); err != nil {
		return nil, err
	}
	return s, s.openServers() //nolint:contextcheck // a request does not end with open's context
}

// NewCertificate reads the configured certificate; nil without TLS.
func NewCertificate(cfg config.Config, log *slog.Logger) (*listen.Certificate, error) {
	if cfg.TLS.CertFile == "" {
		return nil, nil //nolint:nilnil // see above
	}
	certificate, err := listen.NewCertificate(cfg.TLS.CertFile, cfg.TLS.KeyFile, log)
	if err != nil {
		return nil, cfg.Refuse("tls.cert_file", err)
	}
	return certificate, nil
}

// openPublic opens the public address.
func (s *service) openPublic(ctx context.Context) (err error) {
	var secure *tls.Config
	if s.certificate, err = NewCertificate(s.cfg, s.log); err != nil {
		return err
	} else if s.certificate != nil {
		secure = s.certificate.Config()
	}
	socket, err := s.socket(ctx, "listen", s.cfg.Listen, s.log)
	if err != nil {
		return err
	}
	s.public = socket.Listen(secure)
	return nil
}

// openOperator opens the operator's address, unless it is off.
func (s *service) openOperator(ctx context.Context) error {
	if s.cfg.Admin.Listen == "" {
		return nil
	}
	socket, err := s.socket(ctx, "admin.listen", s.cfg.Admin.Listen, s.log)
	if err != nil {
		return err
	}
	s.operator = socket.Listen(nil)
	return nil
}

// openAccessLog opens the log of requests, unless it is off.
func (s *service) openAccessLog() (err error) {
	c, w := s.cfg.Log, s.Stderr
	if c.Access == "combined" {
		w = s.Stdout
	}
	if c.AccessPath != "" {
		if s.access.file, err = accesslog.Open(c.AccessPath, s.log); err != nil {
			return s.cfg.Refuse("log.access_path", err)
		}
		w = s.access.file
	}
	switch c.Level = "debug"; c.Access { // whatever the level of the other log is
	case "on":
		s.access.Logger = newLogger(w, c)
	case "combined":
		s.access.Logger = slog.New(accesslog.Combined(w))
	}
	return nil
}

// openLocal opens the embedded store, unless Redis is another process.
func (s *service) openLocal() (err error) {
	address, ok := strings.CutPrefix(s.cfg.Redis.URL.Reveal(), "embedded:")
	if !ok {
		return nil
	}
	url := storeURL(s.cfg)
	if s.local = s.stores[url]; s.local != nil {
		return nil
	}
	s.local, err = embedded.Start(address, s.log)
	if _, bySystem := errors.AsType[syscall.Errno](err); bySystem {
		return cannotListen("redis.url", "embedded:", address, err)
	} else if err != nil {
		return s.cfg.Refuse("redis.url", err)
	}
	s.stores[url] = s.local
	return nil
}

func (s *service) openStore(ctx context.Context) (err error) {
	s.redisURL = storeURL(s.cfg)
	if s.local != nil {
		s.redisURL = s.local.URL()
	}
	s.store, err = cache.Open(ctx, cache.Options{
		URL: s.redisURL, Prefix: s.cfg.Redis.Prefix, PurgeBound: s.cfg.Redis.PurgeBound, Logger: slog.New(whilePresent{s.log.Handler(), s.isPresent}),
		Events: s.events(),
	})
	if err != nil {
		return s.cfg.Refuse("redis.url", err)
	}
	s.roster = &roster{store: s.store, log: s.log, report: s.reported, purges: make(chan shape.Resource, 8)}
	return nil
}

func (s *service) openReaders() error {
	s.loaders = make(map[shape.Resource]*loader)
	cms := new(outage)
	s.readers = make(map[shape.Resource]*cache.Reader[*represent.Document])
	builders := new(processors.Half)
	for _, r := range shape.Resources() {
		s.loaders[r] = &loader{client: s.client, resource: r, meter: s.meter, log: s.log, now: time.Now, cms: cms}
		reader, err := cache.NewReader(s.store, string(r), cache.ReaderOptions[*represent.Document]{
			TTL:                  s.cfg.TTL.Of(string(r)),
			StaleWhileRevalidate: s.cfg.StaleWhileRevalidate,
			StaleIfError:         s.cfg.StaleIfError,
			FetchTimeout:         s.cfg.Upstream.Timeout,
			Source:               s.client.Fingerprint(),
			Loader:               s.loaders[r],
			Unable:               s.client.Unable,
			Prepare:              represent.Prepare(r, builders),
			Guard:                Guard(r, s.cfg.Guard.Shrink),
			GuardHold:            s.cfg.Guard.Hold,
			ErrorCode:            upstream.Code,
			CodeError:            upstream.FromCode,
			Always:               s.cfg.Refresh == "always",
			LastGood:             s.cfg.LastGood,
			Describe:             s.compared.describe(r),
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
		s.loaders[r].held.Store(&held)
		s.readers[r] = reader
	}
	return nil
}

func (s *service) openServers() (err error) {
	documents := make(map[shape.Resource]proxy.Documents)
	for r, reader := range s.readers {
		documents[r] = reader
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
		AccessLog:               s.access.Logger,
		Meter:                   s.meter,
		Tracer:                  s.tracing.Tracer("vitrine/proxy"),
		TrustedProxies:          s.cfg.Proxies.Trusted,
		ClientHeader:            s.cfg.Proxies.ClientHeader,
		MaxConnections:          maxConnections(s.cfg.Limits),
		MaxTargetBytes:          int(s.cfg.Limits.Target),
		MaxHeaderBytes:          int(s.cfg.Limits.Header),
		MaxBodyBytes:            int(s.cfg.Limits.Body),
		ReadTimeout:             s.cfg.Limits.ReadTimeout,
		WriteTimeout:            s.cfg.Limits.WriteTimeout,
		IdleTimeout:             s.cfg.Limits.IdleTimeout,
	}); err != nil {
		return err
	}
	if s.operator == nil {
		return nil
	}
	options := operator.Options{
		Checks: s.checks(), Status: s.status, Document: s.document, Meter: s.meter,
		Token: s.cfg.Admin.Token.Reveal(), Listen: s.cfg.Admin.Listen, Hosts: s.cfg.Admin.Hosts, Logger: s.log, OpenAPI: openapi.Document(), Profiles: s.cfg.Admin.Pprof == "on",
	}
	if s.hook = newHook(s.cfg.Hook, s.store, s.meter, s.log); s.hook != nil {
		options.Hook = s.hook
	}
	s.admin = operator.New(options)
	return nil
}

// start starts serving.
func (s *service) start(ctx context.Context) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.group, s.running = errgroup.WithContext(running)
	s.stop = stop
	s.group.Go(func() error { return s.proxy.Serve(s.public) })
	if s.admin != nil {
		s.group.Go(func() error { return s.admin.Serve(s.operator) })
	}
	attend := func(f func(context.Context)) {
		s.group.Go(func() error {
			f(s.running)
			return nil
		})
	}
	if s.certificate != nil {
		attend(s.certificate.Watch)
	}
	if s.hook != nil {
		attend(func(ctx context.Context) {
			left := s.hook.Run(ctx)
			if next := s.present.Load(); next != s && next.hook != nil {
				next.hook.Enqueue(left)
			}
		})
	}
	if s.access.file != nil {
		attend(s.access.file.Watch)
	}
	attend(s.roster.run)
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

// covers returns an error for a resource that old can serve and s cannot.
func (s *service) covers(ctx context.Context, old *service) error {
	group, ctx := errgroup.WithContext(ctx)
	for r, reader := range s.readers {
		group.Go(func() error {
			_, err := reader.Get(ctx)
			if err == nil {
				return nil
			}
			if _, worse := old.readers[r].Get(ctx); worse != nil {
				return nil //nolint:nilerr // no worse than before
			}
			return fmt.Errorf("%s cannot be served: %w", r, err)
		})
	}
	return group.Wait()
}
