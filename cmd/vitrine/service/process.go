package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"vitrine/cache/embedded"
	"vitrine/config"
	"vitrine/proxy/listen"
	"vitrine/proxy/operator/metrics"
)

// process holds what outlives a configuration: the sockets, the embedded store and the metrics.
// Each configuration has a service; the current one serves.
type process struct {
	started time.Time
	stdout  io.Writer
	stderr  io.Writer
	meter   *metrics.Meter
	tracing *tracing // nil without tracing
	sockets map[bound]*listen.Socket
	passed  net.Listener               // the public socket from systemd, until the first service takes it; or nil
	stores  map[string]*embedded.Store // by their URL
	present atomic.Pointer[service]
	ending  chan error         // the end of the previous service while its requests finish; otherwise nil
	leaving *service           // that service
	hurry   context.CancelFunc // cuts them off
}

// bound is a socket's setting and its value: port 0 is a new port each time.
type bound struct{ key, address string }

func newProcess(ctx context.Context, log config.Log, stdout, stderr io.Writer) (*process, error) {
	p := &process{
		started: time.Now(), stdout: stdout, stderr: stderr,
		sockets: make(map[bound]*listen.Socket), stores: make(map[string]*embedded.Store),
	}
	var err error
	if p.passed, err = inherited(); err != nil {
		return nil, err
	}
	p.meter = metrics.New(release(), p.look)
	p.tracing = openTracing(ctx, newLogger(stderr, log))
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
	s, err := p.open(ctx, cfg)
	if err != nil {
		return errors.Join(err, p.closeUnused())
	}
	s.start(ctx)
	p.present.Store(s)
	return nil
}

// run serves until ctx ends, and applies the configuration that load reads at each hangup. It is
// called once, after begin, and leaves nothing open.
func (p *process) run(ctx context.Context, asked <-chan os.Signal, load func() (config.Config, error)) error {
	log := p.present.Load().log
	beside, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { p.meter.Run(beside) })
	running.Go(func() { feedWatchdog(beside, log) })
	tellSystemd(ctx, log, daemon.SdNotifyReady)
	err := p.serve(ctx, asked, load)
	stop()
	running.Wait()
	return errors.Join(err, p.closeUnused())
}

// serve waits with a hangup while the previous service has requests, since two services at a time
// are enough. Several hangups then count as one.
func (p *process) serve(ctx context.Context, asked <-chan os.Signal, load func() (config.Config, error)) error {
	for waiting := false; ; {
		s := p.present.Load()
		if waiting && p.ending == nil && ctx.Err() == nil {
			waiting = false
			next, err := load()
			if err == nil {
				err = p.replace(ctx, next)
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
		case <-asked:
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
	s, err := p.open(ctx, next)
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
	p.tracing.close(ctx, s.log, time.Now().Add(s.cfg.Shutdown.Timeout)) // the store's fetches made spans
	return err
}

// socket returns the socket for the address of the setting called key. Its error says which setting
// to change.
func (p *process) socket(ctx context.Context, key, address string, log *slog.Logger) (*listen.Socket, error) {
	at := bound{key, address}
	if s := p.sockets[at]; s != nil {
		return s, nil
	}
	var s *listen.Socket
	if key == "listen" && p.passed != nil {
		s, p.passed = listen.Take(p.passed, log), nil
	} else {
		var err error
		s, err = listen.Open(ctx, address, log)
		_, port, _ := net.SplitHostPort(address) // a unix socket has none
		for at, own := range p.sockets {
			if at.key == key && port != "" && strings.HasSuffix(at.address, ":"+port) && errors.Is(err, syscall.EADDRINUSE) {
				s, err = own.OpenBeside(ctx, address, log)
			}
		}
		if err != nil {
			return nil, cannotListen(key, "", address, err)
		}
	}
	p.sockets[at] = s
	return s, nil
}

// openLocal starts the embedded store, if there is one, unless the service before has started it.
func (s *service) openLocal() (err error) {
	address, ok := strings.CutPrefix(s.cfg.Redis.URL.Reveal(), "embedded:")
	if !ok {
		return nil
	}
	url := embedded.URL(address)
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

// closeUnused closes the sockets and embedded stores that none of the configurations names.
func (p *process) closeUnused(used ...config.Config) error {
	var errs []error
	for at, s := range p.sockets {
		if !slices.ContainsFunc(used, func(c config.Config) bool {
			return at == bound{"listen", c.Listen} || at == bound{"admin.listen", c.Admin.Listen}
		}) {
			errs = append(errs, s.Close())
			delete(p.sockets, at)
		}
	}
	for url, s := range p.stores {
		if !slices.ContainsFunc(used, func(c config.Config) bool { return storeURL(c) == url }) {
			s.Close()
			delete(p.stores, url)
		}
	}
	return errors.Join(errs...)
}

const (
	// mostConnections is the limit if the system's is higher or absent.
	mostConnections = 256 << 10
	// reservedDescriptors are reserved for Redis, the CMS, the operator's address and files, even
	// while two services run.
	reservedDescriptors = 512
)

// maxConnections is limits.connections, or by default the limit on descriptors, less a reserve.
func maxConnections(c config.Limits) int {
	if c.Connections > 0 {
		return c.Connections
	}
	n := min(maxDescriptors(), 2*mostConnections)
	return min(mostConnections, n-min(reservedDescriptors, n/2))
}
