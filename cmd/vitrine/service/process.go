package service

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"vitrine/cache/embedded"
	"vitrine/cmd/vitrine/tracing"
	"vitrine/config"
	"vitrine/proxy/listen"
	"vitrine/proxy/operator/metrics"
)

// process runs one service after the other, one for each configuration.
type process struct {
	*holdings
	present atomic.Pointer[service]
	ending  chan error         // the end of the previous service while its requests finish; otherwise nil
	leaving *service           // that service
	hurry   context.CancelFunc // cuts them off
}

func newProcess(ctx context.Context, log config.Log, o Options) (*process, error) {
	p := &process{holdings: &holdings{
		Options: o, started: time.Now(), sockets: make(map[bound]*listen.Socket), stores: make(map[string]*embedded.Store),
	}}
	var err error
	if p.passed, err = inherited(); err != nil {
		return nil, err
	}
	p.meter = metrics.New(o.Version, p.look)
	p.tracing = tracing.Open(ctx, o.Version, newLogger(o.Stderr, log))
	return p, nil
}

// look returns the current state, for the meter.
func (p *process) look() metrics.State {
	if s := p.present.Load(); s != nil {
		return s.look()
	}
	return metrics.State{}
}

// begin starts the first service. After an error nothing is left open.
func (p *process) begin(ctx context.Context, cfg config.Config) error {
	s, err := open(ctx, cfg, p.holdings, &p.present)
	if err != nil {
		return errors.Join(err, p.closeUnused())
	}
	s.start(ctx)
	p.present.Store(s)
	return nil
}

// Run serves a configuration until ctx ends. It leaves nothing open.
func Run(ctx context.Context, cfg config.Config, o Options) error {
	p, err := newProcess(ctx, cfg.Log, o)
	if err != nil {
		return err
	}
	if err := p.begin(ctx, cfg); err != nil {
		return err
	}
	s := p.present.Load()
	if cfg.Log.Format == "text" {
		if _, err := o.Stdout.Write([]byte(s.startup())); err != nil {
			return errors.Join(err, p.end(ctx), p.closeUnused())
		}
	}
	s.log.InfoContext(ctx, "serving", "address", s.public.Addr().String(), "upstream", s.client.String(), "redis", s.store.Addr(),
		"max_connections", maxConnections(cfg.Limits))
	if s.operator != nil {
		s.log.InfoContext(ctx, "operator's address", "address", s.operator.Addr().String(),
			"loopback", cfg.Admin.IsLoopback(), "token", cfg.Admin.Token.Reveal() != "")
	}
	return p.run(ctx)
}

// run serves until ctx ends, and applies the configuration that is read at each hangup. It is
// called once, after begin, and leaves nothing open.
func (p *process) run(ctx context.Context) error {
	log := p.present.Load().log
	beside, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { p.meter.Run(beside) })
	running.Go(func() { feedWatchdog(beside, log) })
	tellSystemd(ctx, log, daemon.SdNotifyReady)
	err := p.serve(ctx)
	stop()
	running.Wait()
	return errors.Join(err, p.closeUnused())
}

// serve waits with a hangup while the previous service has requests, since two services at a time
// are enough. Several hangups then count as one.
func (p *process) serve(ctx context.Context) error {
	for waiting := false; ; {
		s := p.present.Load()
		if waiting && p.ending == nil && ctx.Err() == nil {
			waiting = false
			next, err := p.Reload()
			if err == nil {
				err = p.replace(ctx, next)
			}
			if err != nil && ctx.Err() != nil {
				continue // it ends, and the reload with it
			}
			p.meter.Reloaded(err == nil)
			if err != nil {
				s.log.ErrorContext(ctx, "configuration not reloaded", "serving", "as before", "error", err)
			}
			continue
		}
		select {
		case <-s.running.Done(): // a server failed
			return p.end(ctx)
		case <-ctx.Done():
			return p.end(ctx)
		case err := <-p.ending:
			p.ended(ctx, err)
		case <-p.Hangups:
			if waiting = true; p.ending != nil {
				s.log.InfoContext(ctx, "reloading waits for requests to the previous configuration's service")
			}
		}
	}
}

// replace starts a service for next beside the current one, on the same sockets and the same
// embedded store, and lets it take over once it can serve everything that the current one can.
// After an error nothing has changed. It is not called concurrently, nor while a service is ending.
func (p *process) replace(ctx context.Context, next config.Config) error {
	old := p.present.Load()
	s, err := open(ctx, next, p.holdings, &p.present)
	if err == nil {
		if err = s.covers(ctx, old); err != nil {
			err = errors.Join(err, s.close())
		}
	}
	if err != nil {
		return errors.Join(err, p.closeUnused(old.cfg))
	}
	old.leaveSockets() // new connections are for the new service
	s.start(ctx)
	p.present.Store(s)
	changes := next.Changes(old.cfg)
	if len(changes) == 0 {
		s.log.InfoContext(ctx, "configuration reloaded: nothing changed")
	}
	for _, c := range changes {
		s.log.InfoContext(ctx, "configuration changed", "setting", c.Key, "from", c.From, "to", c.To, "origin", c.Origin)
	}
	ending := make(chan error, 1)
	p.ending, p.leaving = ending, old
	ctx, p.hurry = context.WithCancel(context.WithoutCancel(ctx))
	go func() { ending <- old.handOver(ctx) }()
	return nil
}

// ended closes what only the previous service used.
func (p *process) ended(ctx context.Context, err error) {
	p.ending, p.leaving = nil, nil
	p.hurry()
	s := p.present.Load()
	if err = errors.Join(err, p.closeUnused(s.cfg)); err != nil {
		s.log.WarnContext(ctx, "the previous configuration's service did not end cleanly", "error", err)
	}
}

// handOverTime is how long an end waits for the idle connections of the service before.
const handOverTime = time.Second

// end drains the current service. The previous one has as much time.
func (p *process) end(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	s := p.present.Load()
	if p.ending != nil { // connections are on their way to this service, but later ones would find none
		defer time.AfterFunc(s.cfg.Shutdown.Delay+s.cfg.Shutdown.Timeout, p.hurry).Stop()
		p.leaving.proxy.SetDraining()
		select {
		case err := <-p.ending:
			p.ended(ctx, err)
		case <-time.After(handOverTime):
		}
	}
	err := s.drain(ctx)
	if p.ending != nil {
		p.ended(ctx, <-p.ending)
	}
	p.tracing.Close(ctx, s.log, time.Now().Add(s.cfg.Shutdown.Timeout)) // the store's fetches made spans
	return err
}
