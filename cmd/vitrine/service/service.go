// Package service runs the proxy: a configuration, wired, and the next one after it.
//
// [Run] serves until its context ends (serve.go). What answers is a service: one configuration, its
// store and its handlers, wired together (build.go). A reload builds the next one and swaps the two;
// listeners and connections stay (swap.go). At the end the connections are drained (drain.go). What
// commands do as a service does is here, too: [NewUpstream], [NewCertificate], [Policy].
package service

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"vitrine/cache"
	"vitrine/cache/embedded"
	"vitrine/cmd/vitrine/loader"
	"vitrine/config"
	"vitrine/proxy"
	"vitrine/proxy/listen"
	"vitrine/proxy/notify"
	"vitrine/proxy/operator"
	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/represent"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// Options are the surroundings of a process.
type Options struct {
	Version string    // of this program
	Stdout  io.Writer // for the startup text
	Stderr  io.Writer
	// Hangups asks for the configuration that Reload then reads; it has room for one. Nil: nothing
	// asks.
	Hangups <-chan os.Signal
	Reload  func() (config.Config, error)
}

// process is what outlives a configuration: the addresses with their connections, and the metrics.
type process struct {
	Options
	started     time.Time
	meter       *metrics.Meter
	certificate *listen.Certificate // nil without TLS
	public      *listen.Listener    // nil until the first service is built
	connections *proxy.Connections  // to it
	operator    *listen.Socket      // nil if the operator's address is off
	sockets     []*listen.Socket    // of both
	address     *operator.Address   // its connections
	servers     *errgroup.Group     // of both addresses
	failed      context.Context     // ends with the servers, or when one fails
	present     atomic.Pointer[service]
	left        chan struct{}      // closed when the service before has ended; nil before there was one
	hurry       context.CancelFunc // ends it with requests under way
}

// service is one configuration, wired: build makes one, start starts it, and end ends it.
type service struct {
	*process // what outlives it
	cfg      config.Config
	log      *slog.Logger
	client   *upstream.Client
	local    *embedded.Store // nil if Redis is another process
	store    *cache.Store
	redisURL string // that it was opened with
	loaders  map[shape.Resource]*loader.Loader
	readers  map[shape.Resource]*cache.Reader[*represent.Document]
	proxy    *proxy.Server
	admin    *operator.Server // nil if the operator's address is off
	notifier *notify.Notifier

	documents chan cache.Sight // seen, for describeChanges
	running   context.Context  // ends with the service
	stop      context.CancelFunc
	beside    sync.WaitGroup // what runs beside requests
}

// isPresent reports whether s is the service that serves, or the first one, before it does.
func (s *service) isPresent() bool {
	present := s.present.Load()
	return present == nil || present == s
}

// end ends a service that has no requests.
func (s *service) end() error {
	s.stop()
	s.beside.Wait()
	return s.close()
}

// close releases what build opened, except an embedded store that the present service has, too.
func (s *service) close() (err error) {
	if s.store != nil {
		err = s.store.Close()
	}
	if s.client != nil {
		s.client.Close()
	}
	if now := s.present.Load(); s.local != nil && (s.isPresent() || now.local != s.local) {
		s.local.Close()
	}
	return err
}
