package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"vitrine/cache"
	"vitrine/config"
	"vitrine/proxy"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// errRestart is a reload of what only a restart can change.
var errRestart = errors.New("it changes what only a restart can")

// reload puts next into effect, whole or not at all. Everything that could
// fail is made before anything is changed. It is not called concurrently.
func (s *service) reload(ctx context.Context, next config.Config) error {
	before := s.present.Load()
	changes := next.Changes(*before)
	restart := false
	for _, c := range changes {
		if c.Restart {
			restart = true
			s.log.ErrorContext(ctx, "only a restart can change this", "setting", c.Key, "from", c.From, "to", c.To, "origin", c.Origin)
		}
	}
	if restart {
		return errRestart
	}
	client := s.client.Load()
	replaced := upstreamChanged(changes)
	if replaced {
		var err error
		if client, err = newUpstream(next, s.log, s.tracing); err != nil {
			return err
		}
	}
	policies := make(map[shape.Resource]cache.Policy)
	for r := range s.readers {
		policies[r] = policyOf(&next, r, client.Fingerprint())
	}
	if err := s.proxy.SetTerms(termsOf(&next)); err != nil { // the last that can fail: config has checked the rest
		return err
	}
	s.put(ctx, &next, client, policies)
	if len(changes) == 0 {
		s.log.InfoContext(ctx, "configuration read again: nothing changed")
	}
	for _, c := range changes {
		s.log.InfoContext(ctx, "configuration changed", "setting", c.Key, "from", c.From, "to", c.To, "origin", c.Origin)
	}
	return nil
}

// put replaces what runs. The client comes before the policies, whose source
// says what it brings; see cache.Reader.SetPolicy.
func (s *service) put(ctx context.Context, next *config.Config, client *upstream.Client, policies map[shape.Resource]cache.Policy) {
	if old := s.client.Swap(client); old != client {
		old.Close()
	}
	for r, reader := range s.readers {
		if err := reader.SetPolicy(ctx, policies[r]); err != nil {
			s.log.ErrorContext(ctx, "a policy that was checked is refused", "resource", r, "error", err)
		}
	}
	if s.admin != nil {
		s.admin.SetToken(next.Admin.Token.Reveal())
	}
	if s.level != nil {
		s.level.Set(levelOf(next.Log))
	}
	s.present.Store(next)
}

// upstreamChanged reports whether the CMS has to be asked in another way.
func upstreamChanged(changes []config.Change) bool {
	for _, c := range changes {
		if config.IsIn("upstream", c.Key) {
			return true
		}
	}
	return false
}

// ttlOf is how long each resource is fresh.
func ttlOf(c *config.Config) map[shape.Resource]time.Duration {
	return map[shape.Resource]time.Duration{
		shape.Catalogue: c.TTL.Catalogue,
		shape.Rules:     c.TTL.Rules,
		shape.Banners:   c.TTL.Banners,
	}
}

// policyOf is how long r may be kept, and where it comes from.
func policyOf(c *config.Config, r shape.Resource, source string) cache.Policy {
	return cache.Policy{
		TTL:                  ttlOf(c)[r],
		StaleWhileRevalidate: c.StaleWhileRevalidate,
		StaleIfError:         c.StaleIfError,
		FetchTimeout:         c.Upstream.Timeout,
		Source:               source,
	}
}

// termsOf is what visitors and their caches are told.
func termsOf(c *config.Config) proxy.Terms {
	return proxy.Terms{
		MaxAge:                  c.HTTP.MaxAge,
		StaleWhileRevalidate:    c.StaleWhileRevalidate,
		CDNMaxAge:               c.HTTP.CDNMaxAge,
		CDNStaleWhileRevalidate: c.HTTP.CDNStaleWhileRevalidate,
		StaleIfError:            c.StaleIfError,
		HSTS:                    c.HTTP.HSTS,
		CORSOrigins:             c.CORS.Origins,
	}
}

// runReloading is run, and reads the configuration again when asked.
func (s *service) runReloading(ctx context.Context, asked <-chan struct{}, load func() (config.Config, error)) error {
	running, stop := context.WithCancel(ctx)
	var reloads sync.WaitGroup
	reloads.Go(func() { s.reloads(running, asked, load) })
	err := s.run(ctx)
	stop()
	reloads.Wait()
	return err
}

// reloads reads the configuration anew whenever asked, until ctx ends. One
// that is wrong is told, and the one in effect goes on.
func (s *service) reloads(ctx context.Context, asked <-chan struct{}, load func() (config.Config, error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
		}
		next, err := load()
		if err == nil {
			err = s.reload(ctx, next)
		}
		if err != nil {
			s.log.ErrorContext(ctx, "configuration not reloaded: nothing has changed", "error", err)
		}
	}
}

// levelOf is the level that is configured.
func levelOf(c config.Log) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		return slog.LevelInfo // config has checked it
	}
	return level
}
