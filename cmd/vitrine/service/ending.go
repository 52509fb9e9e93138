package service

import (
	"context"
	"errors"
	"time"
)

// drain ends the service for good: readiness fails first; after the delay in which a load balancer
// can notice, requests in flight finish.
func (s *service) drain(ctx context.Context) error {
	bounds := s.cfg.Shutdown
	s.log.InfoContext(ctx, "stopping", "delay", bounds.Delay, "timeout", bounds.Timeout)
	if s.admin != nil {
		s.admin.SetDraining()
	}
	<-time.After(bounds.Delay)
	ctx, cancel := context.WithTimeout(ctx, bounds.Timeout)
	defer cancel()
	s.proxy.SetDraining()
	err := s.endPublic(ctx, s.public.Drain)
	return s.ended(ctx, errors.Join(err, s.endOperator(ctx)))
}

// handOver ends the service after the current one has taken over its connections. They are closed
// instead if that one listens elsewhere. It waits as long as a request can take, or until ctx ends.
func (s *service) handOver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.requestTime())
	defer cancel()
	operator := make(chan error, 1)
	go func() { operator <- s.endOperator(ctx) }()
	leave := s.public.HandOver
	if s.present.Load().cfg.Listen != s.cfg.Listen {
		s.proxy.SetDraining()
		leave = s.public.Drain
	}
	err := s.endPublic(ctx, leave)
	return s.ended(ctx, errors.Join(err, <-operator))
}

// requestTime is how long a request can take: to arrive, to wait for the CMS, and to be answered.
func (s *service) requestTime() time.Duration {
	clients := s.cfg.Limits.ReadTimeout + s.cfg.Limits.WriteTimeout
	return clients + clients/8 + s.cfg.Upstream.Timeout + time.Second // deadlines are kept to an eighth
}

// endPublic ends the public server once leave has taken its connections away, and closes those that
// are left when ctx ends.
func (s *service) endPublic(ctx context.Context, leave func(context.Context) error) error {
	err := errors.Join(leave(ctx), s.proxy.Shutdown(ctx))
	if err != nil {
		s.public.CloseConns()
	}
	return err
}

func (s *service) endOperator(ctx context.Context) error {
	if s.admin == nil {
		return nil
	}
	return s.admin.Shutdown(ctx)
}

// ended closes the service after its servers, which ended with err. Requests that were cut off with
// ctx are logged, but no error.
func (s *service) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && err != nil {
		s.log.WarnContext(ctx, "requests were cut off", "error", err)
		err = nil
	}
	s.stop()
	return errors.Join(err, s.group.Wait(), s.close())
}
