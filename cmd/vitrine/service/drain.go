package service

import (
	"context"
	"errors"
	"time"
)

// end ends the process: readiness fails first; after the delay in which a load balancer can notice,
// requests in flight finish. It leaves nothing open.
func (p *process) end(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	s := p.present.Load()
	bounds := s.cfg.Shutdown
	s.log.InfoContext(ctx, "stopping", "delay", bounds.Delay, "timeout", bounds.Timeout)
	if s.admin != nil {
		s.admin.SetDraining()
	}
	<-time.After(bounds.Delay)
	err := p.drain(ctx, bounds.Timeout)
	if p.left != nil { // it has no connections
		p.hurry()
		<-p.left
	}
	err = errors.Join(err, p.servers.Wait())
	ended := make(chan error, 1)
	go func() { ended <- s.end() }()
	select {
	case no := <-ended:
		err = errors.Join(err, no)
	case <-time.After(endTime):
		s.log.WarnContext(ctx, "the connections to redis do not end; the process does")
	}
	return errors.Join(err, p.closeAddresses())
}

// endTime is how long a service without requests may take to end: a Redis can go on sending.
const endTime = 2 * time.Second

// drain ends the connections, each after the request under way. Those that are left after a time
// are cut off, which is logged, but no error.
func (p *process) drain(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	p.connections.SetDraining()
	err := errors.Join(p.public.Drain(), p.connections.Shutdown(ctx))
	if err != nil {
		p.public.CloseConns()
	}
	if p.address != nil {
		err = errors.Join(err, p.address.Shutdown(ctx))
	}
	if ctx.Err() != nil && err != nil {
		p.present.Load().log.WarnContext(ctx, "requests were cut off", "error", err)
		return nil
	}
	return err
}
