package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"vitrine/config"
)

// reload applies the configuration that is read now. After an error nothing has changed. Otherwise
// it returns when the service before has answered its requests, since two at a time are enough, or
// when the process ends.
func (p *process) reload(ctx context.Context) {
	next, err := p.Reload()
	if err == nil {
		err = p.swap(ctx, next)
	}
	if err != nil && ctx.Err() != nil {
		return // the process ends, and the reload with it
	}
	p.meter.Reloaded(err == nil)
	if err != nil {
		p.present.Load().log.ErrorContext(ctx, "configuration not reloaded", "serving", "as before", "error", err)
		return
	}
	select {
	case <-p.left:
	case <-ctx.Done():
	case <-p.failed.Done():
	}
}

// swap builds a service for next, which answers instead of the present one once it can serve
// everything that this one can. It is not called while a service is leaving.
func (p *process) swap(ctx context.Context, next config.Config) error {
	before := p.present.Load()
	kept := keep(next, before.cfg)
	s, err := p.build(ctx, kept)
	if err != nil {
		return err
	}
	if err := s.covers(ctx, before); err != nil {
		return errors.Join(err, s.close())
	}
	s.start(ctx)
	p.present.Store(s)
	p.connections.Swap(s.proxy)
	if p.address != nil {
		p.address.Swap(s.admin)
	}
	s.logChanges(ctx, next, before.cfg)
	s.logToken(ctx)
	p.left = make(chan struct{})
	leaving, hurry := context.WithTimeout(context.WithoutCancel(ctx), before.requestTime())
	p.hurry = hurry
	go func() {
		defer close(p.left)
		defer hurry()
		before.leave(leaving)
	}()
	return nil
}

// keep is next with what the addresses were opened with, which only a restart changes. Who may ask
// at the operator's address goes with it.
func keep(next, before config.Config) config.Config {
	next.Listen, next.TLS, next.Limits = before.Listen, before.TLS, before.Limits
	if next.Admin.Listen != before.Admin.Listen {
		next.Admin = before.Admin
	}
	return next
}

// logChanges logs what changed in s, and what of next waits for a restart.
func (s *service) logChanges(ctx context.Context, next, before config.Config) {
	changes, all := s.cfg.Changes(before), next.Changes(before)
	var later []string
	for _, c := range all {
		if !slices.Contains(changes, c) {
			later = append(later, c.Key)
		}
	}
	if len(later) > 0 {
		s.log.WarnContext(ctx, "these settings change at a restart", "settings", strings.Join(later, " "))
	}
	if len(all) == 0 {
		s.log.InfoContext(ctx, "configuration reloaded: nothing changed")
	}
	for _, c := range changes {
		s.log.InfoContext(ctx, "configuration changed", "setting", c.Key, "from", c.From, "to", c.To)
	}
}

// covers returns an error for a resource that before can serve and s cannot.
func (s *service) covers(ctx context.Context, before *service) error {
	group, ctx := errgroup.WithContext(ctx)
	for r, reader := range s.readers {
		group.Go(func() error {
			_, err := reader.Get(ctx)
			if err == nil {
				return nil
			}
			if _, worse := before.readers[r].Get(ctx); worse != nil {
				return nil //nolint:nilerr // no worse than before
			}
			return fmt.Errorf("%s cannot be served: %w", r, err)
		})
	}
	return group.Wait()
}

// requestTime is how long a request can take: to wait for the CMS, or for a profile.
func (s *service) requestTime() time.Duration { return s.cfg.Upstream.Timeout + time.Minute }

// leave ends a service that answers no new requests: once it has answered those that it has, or
// when ctx ends.
func (s *service) leave(ctx context.Context) {
	err := s.proxy.Drain(ctx)
	if s.admin != nil {
		err = errors.Join(err, s.admin.Drain(ctx))
	}
	if err = errors.Join(err, s.end()); err != nil {
		s.log.WarnContext(ctx, "the previous configuration's service did not end cleanly", "error", err)
	}
}
