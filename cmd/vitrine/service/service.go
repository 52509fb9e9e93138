// Package service runs the proxy: a configuration, wired, and the next one after it.
//
// [Run] opens every listener and store (open.go), prints what it serves and how to try it
// (startup.go), and runs until its context ends (process.go). A new configuration is opened beside
// the present one and takes over its sockets, which outlive both (holdings.go); each ends by
// draining, or by handing its connections over (ending.go). What commands do as a service does is
// here, too: [NewUpstream], [NewCertificate], [Guard].
package service

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"vitrine/cache"
	"vitrine/cache/embedded"
	"vitrine/config"
	"vitrine/proxy"
	"vitrine/proxy/listen"
	"vitrine/proxy/notify"
	"vitrine/proxy/operator"
	"vitrine/proxy/operator/webhook"
	"vitrine/proxy/represent"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// service is one configuration, wired: open makes one, start starts it, and drain or handOver ends
// it. A service that was not started is closed.
type service struct {
	*holdings
	present     *atomic.Pointer[service] // the one that visitors get
	cfg         config.Config
	log         *slog.Logger
	access      accessLog
	public      *listen.Listener
	operator    *listen.Listener    // nil if the operator's address is off
	certificate *listen.Certificate // nil without TLS
	client      *upstream.Client
	local       *embedded.Store // nil if Redis is another process
	store       *cache.Store
	redisURL    string // that it was opened with
	roster      *roster
	loaders     map[shape.Resource]*loader
	readers     map[shape.Resource]*cache.Reader[*represent.Document]
	proxy       *proxy.Server
	admin       *operator.Server // nil if the operator's address is off
	hook        *webhook.Hook    // nil without one
	notifier    *notify.Notifier

	compared  comparisons      // of documents, each made once
	documents chan cache.Sight // seen, for describeChanges
	running   context.Context  // ends with the service, and when one of its servers fails
	stop      context.CancelFunc
	group     *errgroup.Group
}

// isPresent reports whether s is the service that serves, or the first one, before it does.
func (s *service) isPresent() bool {
	present := s.present.Load()
	return present == nil || present == s
}

// leaveSockets stops accepting. The sockets stay open.
func (s *service) leaveSockets() {
	for _, l := range []*listen.Listener{s.public, s.operator} {
		if l != nil {
			_ = l.Close() // it cannot fail
		}
	}
}

// close releases what open opened, except what outlives the configuration.
func (s *service) close() (err error) {
	s.leaveSockets()
	if s.store != nil {
		err = s.store.Close()
	}
	if s.client != nil {
		s.client.Close()
	}
	return errors.Join(err, s.access.file.Close())
}
