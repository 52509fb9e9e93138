package service

import (
	"context"
	"errors"
	"log/slog"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"vitrine/cmd/vitrine/logs"
	"vitrine/config"
	"vitrine/proxy"
	"vitrine/proxy/listen"
	"vitrine/proxy/operator"
	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/verdict"
)

func newProcess(o Options) *process {
	p := &process{Options: o, started: time.Now()}
	p.meter = metrics.New(o.Version, p.look)
	p.meter.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "vitrine_log_lines_lost_total", Help: "Log lines lost because their reader hangs or has gone.",
	}, func() float64 {
		if q, ok := o.Stderr.(*logs.Queue); ok {
			return float64(q.Lost())
		}
		return 0
	}))
	return p
}

// Run serves a configuration until ctx ends. It leaves nothing open.
func Run(ctx context.Context, cfg config.Config, o Options) error {
	signal.Ignore(syscall.SIGPIPE) // a reader of the log that has gone ends nothing
	p := newProcess(o)
	if err := p.begin(ctx, cfg); err != nil {
		return err
	}
	s := p.present.Load()
	if cfg.Log.Format == "text" {
		out := logs.NewQueue(o.Stdout) // its reader may hang
		_, _ = out.Write([]byte(s.startup()))
		out.Close()
	}
	s.log.InfoContext(ctx, "serving", "address", s.public.Addr().String(), "upstream", s.client.String(), "redis", s.store.Addr(),
		"max_connections", maxConnections(cfg.Limits))
	if s.operator != nil {
		s.log.InfoContext(ctx, "admin address", "address", s.operator.Addr().String(),
			"loopback", cfg.Admin.IsLoopback(), "token", cfg.Admin.Token.Reveal() != "")
		s.logToken(ctx)
	}
	return p.run(ctx)
}

// begin starts the first service, and then the servers. After an error nothing is left open.
func (p *process) begin(ctx context.Context, cfg config.Config) error {
	s, err := p.build(ctx, cfg)
	if err != nil {
		return errors.Join(err, p.closeAddresses())
	}
	p.connections = proxy.NewConnections(s.proxy, listen.Buffer)
	s.start(ctx)
	p.present.Store(s)
	p.servers, p.failed = errgroup.WithContext(context.WithoutCancel(ctx))
	p.servers.Go(func() error { return p.connections.Serve(p.public) })
	if p.operator != nil {
		p.address = operator.NewAddress(s.admin, s.log)
		p.servers.Go(func() error { return p.address.Serve(p.operator, operator.MaxConnections) })
	}
	return nil
}

// run serves until ctx ends, and applies the configuration that is read at each hangup. It is
// called once, after begin, and leaves nothing open.
func (p *process) run(ctx context.Context) error {
	log := p.present.Load().log
	beside, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		p.meter.Run(beside, func(s verdict.Snapshot, v verdict.Verdict) { p.present.Load().notifier.Judged(s, v) })
	})
	running.Go(func() { feedWatchdog(beside, log) })
	if p.certificate != nil {
		running.Go(func() { p.certificate.Watch(beside) })
	}
	tellSystemd(ctx, log, daemon.SdNotifyReady)
	err := p.serve(ctx)
	stop()
	running.Wait()
	return err
}

// serve applies a configuration at each hangup. Several hangups while it does so count as one.
func (p *process) serve(ctx context.Context) error {
	for {
		select {
		case <-p.failed.Done():
			return p.end(ctx)
		case <-ctx.Done():
			return p.end(ctx)
		case <-p.Hangups:
			p.reload(ctx)
		}
	}
}

// logToken logs a link with the token of the admin address, once it was made, whatever the log's level.
func (s *service) logToken(ctx context.Context) {
	if s.operator == nil || !s.cfg.HasMadeToken() {
		return
	}
	level := slog.LevelWarn
	if s.cfg.Log.Level == "error" {
		level = slog.LevelError
	}
	link := "http://admin:" + s.cfg.Admin.Token.Reveal() + "@" + strings.TrimPrefix(urlOf(s.cfg.Admin.Listen, s.operator), "http://") + "/"
	s.log.Log(ctx, level, "made a token for the admin address", "link", link)
}
