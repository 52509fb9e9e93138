package service

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"vitrine/cache"
	"vitrine/cache/embedded"
	"vitrine/cmd/vitrine/tracing"
	"vitrine/config"
	"vitrine/proxy/listen"
	"vitrine/proxy/operator/metrics"
)

// Options are the surroundings of a process.
type Options struct {
	Version string // of this program
	Stdout  io.Writer
	Stderr  io.Writer
	// Hangups asks for the configuration that Reload then reads. Nil: nothing asks.
	Hangups <-chan os.Signal
	Reload  func() (config.Config, error)
}

// holdings are what outlives a configuration: the sockets, the embedded stores and the metrics.
type holdings struct {
	Options
	started time.Time
	meter   *metrics.Meter
	tracing *tracing.Exporter // nil without tracing
	sockets map[bound]*listen.Socket
	passed  net.Listener               // the public socket from systemd, until the first service takes it; or nil
	stores  map[string]*embedded.Store // by their URL
}

// bound is a socket's setting and its value: port 0 is a new port each time.
type bound struct{ key, address string }

// socket returns the socket for the address of the setting called key. Its error says which setting
// to change.
func (h *holdings) socket(ctx context.Context, key, address string, log *slog.Logger) (*listen.Socket, error) {
	at := bound{key, address}
	if s := h.sockets[at]; s != nil {
		return s, nil
	}
	var s *listen.Socket
	if key == "listen" && h.passed != nil {
		s, h.passed = listen.Take(h.passed, log), nil
	} else {
		var err error
		s, err = listen.Open(ctx, address, log)
		_, port, _ := net.SplitHostPort(address) // a unix socket has none
		for at, own := range h.sockets {
			if at.key == key && port != "" && strings.HasSuffix(at.address, ":"+port) && errors.Is(err, syscall.EADDRINUSE) {
				s, err = own.OpenBeside(ctx, address, log)
			}
		}
		if err != nil {
			return nil, cannotListen(key, "", address, err)
		}
	}
	h.sockets[at] = s
	return s, nil
}

// OpenStore opens the store of a configuration for a command.
func OpenStore(ctx context.Context, cfg config.Config) (*cache.Store, error) {
	store, err := cache.Open(ctx, cache.Options{URL: storeURL(cfg), Prefix: cfg.Redis.Prefix, PurgeBound: cfg.Redis.PurgeBound})
	if err != nil {
		return nil, cfg.Refuse("redis.url", err)
	}
	return store, nil
}

// storeURL is the store to open for a configuration: an embedded one is reached as a Redis, in the
// process that has it.
func storeURL(cfg config.Config) string {
	if address, local := strings.CutPrefix(cfg.Redis.URL.Reveal(), "embedded:"); local {
		return embedded.URL(address)
	}
	return cfg.Redis.URL.Reveal()
}

// closeUnused closes the sockets and embedded stores that none of the configurations names.
func (h *holdings) closeUnused(used ...config.Config) error {
	var errs []error
	for at, s := range h.sockets {
		if !slices.ContainsFunc(used, func(c config.Config) bool {
			return at == bound{"listen", c.Listen} || at == bound{"admin.listen", c.Admin.Listen}
		}) {
			errs = append(errs, s.Close())
			delete(h.sockets, at)
		}
	}
	for url, s := range h.stores {
		if !slices.ContainsFunc(used, func(c config.Config) bool { return storeURL(c) == url }) {
			s.Close()
			delete(h.stores, url)
		}
	}
	return errors.Join(errs...)
}
