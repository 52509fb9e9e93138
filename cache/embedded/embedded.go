// Package embedded is a Redis-speaking store inside the process, for a machine that has no Redis.
//
// It is miniredis on loopback, behind a connection that passes on what is Redis's protocol and
// within bounds (conn.go), and a list of the commands that vitrine and an operator's redis-cli need
// (commands.go), of which those that store something need room (memory.go). Miniredis lacks
// keys that expire by themselves and CLIENT TRACKING in broadcast mode; both are added here
// (tracking.go): a command's changes are announced to every tracking connection before the reply is
// sent.
package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"vitrine/cache/lease"
)

const (
	// expiryTick is how often the keys' clock moves, and so the precision of expiry.
	expiryTick = 50 * time.Millisecond
	// acceptPause is the pause after a failed accept, perhaps for lack of descriptors.
	acceptPause = 50 * time.Millisecond
	// maxConnections bounds the connections. More are refused.
	maxConnections = 256
)

// A Store is a running embedded store.
type Store struct {
	redis    *miniredis.Miniredis
	track    *tracking
	listener net.Listener
	cancel   context.CancelFunc
	done     sync.WaitGroup
}

const host = "127.0.0.1"

// DefaultAddr is where a store listens if no address is given and the port is free.
const DefaultAddr = host + ":6380"

// Start listens on loopback: addr is PORT or 127.0.0.1:PORT, where port 0 means any free one. If it
// is "", that is [DefaultAddr], or any free port if that is taken, with a warning to log, unless nil.
//
// Whoever can connect is trusted with what is stored. Any number of clients, one after the other or
// at once, share it until the store is closed.
func Start(addr string, log *slog.Logger) (*Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if addr != "" {
		port, ok := portOf(addr)
		if !ok {
			return nil, fmt.Errorf("embedded store: want embedded:, embedded:PORT or embedded:127.0.0.1:PORT, got %q", "embedded:"+addr)
		}
		return start(net.JoinHostPort(host, port), log)
	}
	s, err := start(DefaultAddr, log)
	if err == nil {
		return s, nil
	}
	s, anywhere := start(net.JoinHostPort(host, "0"), log)
	if anywhere == nil {
		log.Warn("the embedded store is not at its usual address", "usual", DefaultAddr, "error", err, "address", s.Addr())
	}
	return s, anywhere
}

func portOf(addr string) (port string, ok bool) {
	port = strings.TrimPrefix(addr, host+":")
	_, err := strconv.ParseUint(port, 10, 16)
	return port, err == nil
}

// URL is the redis:// setting for another process, of a store started with addr.
func URL(addr string) string {
	if port, ok := portOf(addr); ok {
		return "redis://" + net.JoinHostPort(host, port)
	}
	return "redis://" + DefaultAddr
}

func start(addr string, log *slog.Logger) (*Store, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("embedded store: %w", err)
	}
	redis := miniredis.NewMiniRedis()
	dialed, err := redis.Dial() // starts it without a listener of its own
	if err != nil {
		return nil, errors.Join(fmt.Errorf("embedded store: %w", err), listener.Close())
	}
	_ = dialed.Close() // one end of a pipe
	ctx, cancel := context.WithCancel(context.Background())
	s := &Store{redis: redis, track: newTracking(redis), listener: listener, cancel: cancel}
	redis.Server().SetPreHook((&commands{track: s.track, memory: &memory{redis: redis, most: maxStored}, scripts: lease.IsScript, log: log, run: rand.Text()}).hook)
	s.done.Go(func() { s.expire(ctx) })
	s.done.Go(func() { s.accept(ctx, log) })
	return s, nil
}

// accept serves connections until the listener is closed.
func (s *Store) accept(ctx context.Context, log *slog.Logger) {
	failing, places, large := false, make(chan struct{}, maxConnections), make(chan struct{}, 1)
	for {
		c, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if !failing {
				log.Warn("the embedded store cannot accept connections, retrying", "error", err)
			}
			failing = true
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		failing = false
		select {
		case places <- struct{}{}:
		default:
			_ = c.SetWriteDeadline(time.Now().Add(acceptPause))
			_, _ = c.Write([]byte("-ERR max number of clients reached\r\n"))
			_ = c.Close()
			continue
		}
		bounded, err := newConn(c, lease.IsScript, large, sync.OnceFunc(func() { <-places }))
		if err != nil {
			_ = bounded.Close() // closed before it began
			continue
		}
		s.redis.Server().ServeConn(bounded)
	}
}

// Addr is where a client reaches the store: host:port.
func (s *Store) Addr() string { return s.listener.Addr().String() }

// URL is the address as a setting: redis://host:port.
func (s *Store) URL() string { return URL(s.Addr()) }

// Close ends all connections and forgets everything held.
func (s *Store) Close() {
	s.cancel()
	_ = s.listener.Close() // it is not used again
	s.done.Wait()
	s.redis.Server().SetPreHook(func(c *server.Peer, _ string, _ ...string) bool { // nothing is left to run on
		c.Close()
		return true
	})
	s.redis.Close()
}

// expire moves miniredis's clock along with the real one; without that no key expires. It looks at
// all keys: where somebody stores very many, it does so less often.
func (s *Store) expire(ctx context.Context) {
	pause, last := expiryTick, time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		now := time.Now()
		s.Advance(now.Sub(last))
		last = now
		pause = max(expiryTick, 20*time.Since(now))
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
