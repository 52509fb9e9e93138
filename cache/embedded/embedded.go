// Package embedded is a Redis-speaking store inside the process, for a machine that has no Redis.
//
// It is miniredis with the two features that the cache needs and miniredis lacks: keys that expire
// by themselves, and CLIENT TRACKING in broadcast mode. A command passes through a hook before
// miniredis runs it: the hook lets it run, sees which keys it changed, and notifies every tracking
// connection before the reply is sent.
package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// expiryTick is how often the keys' clock moves, and so the precision of expiry.
const expiryTick = 50 * time.Millisecond

// A Store is a running embedded store.
type Store struct {
	redis  *miniredis.Miniredis
	track  *tracking
	cancel context.CancelFunc
	done   chan struct{}
}

// DefaultAddr is where a store listens if no address is given and the port is free.
const DefaultAddr = "127.0.0.1:6380"

// Start listens on addr, HOST:PORT, where port 0 means any free one. If addr is "", it listens on
// [DefaultAddr], or on any free port if that is taken, with a warning to log, unless nil.
//
// Any number of clients, one after the other or at once, share what the store holds until it is
// closed.
func Start(addr string, log *slog.Logger) (*Store, error) {
	if addr != "" {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("embedded store: want embedded: or embedded:HOST:PORT, got %q", "embedded:"+addr)
		}
		return start(addr)
	}
	s, err := start(DefaultAddr)
	if err == nil {
		return s, nil
	}
	s, anywhere := start("127.0.0.1:0")
	if anywhere == nil && log != nil {
		log.Warn("the embedded store is not at its usual address", "usual", DefaultAddr, "error", err, "address", s.Addr())
	}
	return s, anywhere
}

func start(addr string) (*Store, error) {
	redis := miniredis.NewMiniRedis()
	if err := redis.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("embedded store: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Store{redis: redis, track: newTracking(redis), cancel: cancel, done: make(chan struct{})}
	redis.Server().SetPreHook(s.track.hook)
	go s.expire(ctx)
	return s, nil
}

// Addr is where a client reaches the store: host:port.
func (s *Store) Addr() string {
	return net.JoinHostPort(s.redis.Host(), s.redis.Port())
}

// URL is the address as a setting: redis://host:port.
func (s *Store) URL() string { return "redis://" + s.Addr() }

// Redis is the underlying miniredis, whose clock a test can move.
func (s *Store) Redis() *miniredis.Miniredis { return s.redis }

// Close ends all connections and forgets everything held.
func (s *Store) Close() {
	s.cancel()
	<-s.done
	s.redis.Close()
}

// expire moves miniredis's clock along with the real one; without that no key expires.
func (s *Store) expire(ctx context.Context) {
	defer close(s.done)
	ticker := time.NewTicker(expiryTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.Advance(expiryTick)
		}
	}
}

// Advance moves the keys' clock by d, and announces the keys that expire.
func (s *Store) Advance(d time.Duration) {
	before := s.redis.Keys()
	s.redis.FastForward(d)
	for _, key := range before {
		if !s.redis.Exists(key) {
			s.track.changed(key)
		}
	}
}
