// Package embedded is a Redis-speaking store inside the process, for a machine that has no Redis.
//
// It is miniredis, behind a connection that passes on whole commands within bounds (conn.go), and a
// list of the commands that vitrine and an operator's redis-cli need (commands.go). Miniredis lacks
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
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
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
	password string
	places   chan struct{} // one for each connection
	pending  atomic.Int64  // bytes of commands being received
	cancel   context.CancelFunc
	done     sync.WaitGroup
}

// DefaultAddr is where a store listens if no address is given and the port is free.
const DefaultAddr = "127.0.0.1:6380"

// Start listens on addr, [PASSWORD@]HOST:PORT, where port 0 means any free one. A host that is not
// loopback requires a password. If addr is "", it listens on [DefaultAddr], or on any free port if
// that is taken, with a warning to log, unless nil.
//
// Any number of clients, one after the other or at once, share what the store holds until it is
// closed.
func Start(addr string, log *slog.Logger) (*Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if addr != "" {
		password, addr := split(addr)
		host, _, err := net.SplitHostPort(addr)
		ip := net.ParseIP(host)
		switch {
		case err != nil:
			return nil, fmt.Errorf("embedded store: want embedded: or embedded:[PASSWORD@]HOST:PORT, got %q", "embedded:"+addr)
		case password == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()):
			return nil, errors.New("embedded store: an address that is not loopback requires a password: embedded:PASSWORD@HOST:PORT")
		}
		return start(addr, password, log)
	}
	s, err := start(DefaultAddr, "", log)
	if err == nil {
		return s, nil
	}
	s, anywhere := start("127.0.0.1:0", "", log)
	if anywhere == nil {
		log.Warn("the embedded store is not at its usual address", "usual", DefaultAddr, "error", err, "address", s.Addr())
	}
	return s, anywhere
}

// split separates the password, if there is one.
func split(addr string) (password, hostport string) {
	if at := strings.LastIndexByte(addr, '@'); at >= 0 {
		return addr[:at], addr[at+1:]
	}
	return "", addr
}

// URL is the redis:// setting for another process, of a store started with addr.
func URL(addr string) string {
	if addr == "" {
		addr = DefaultAddr
	}
	password, addr := split(addr)
	u := url.URL{Scheme: "redis", Host: addr}
	if password != "" {
		u.User = url.UserPassword("", password)
	}
	return u.String()
}

func start(addr, password string, log *slog.Logger) (*Store, error) {
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
	redis.RequireAuth(password)
	ctx, cancel := context.WithCancel(context.Background())
	s := &Store{
		redis: redis, track: newTracking(redis), listener: listener, password: password, cancel: cancel,
		places: make(chan struct{}, maxConnections),
	}
	redis.Server().SetPreHook((&commands{track: s.track, memory: &memory{redis: redis, most: maxStored}, scripts: lease.IsScript, log: log, run: rand.Text()}).hook)
	s.done.Go(func() { s.expire(ctx) })
	s.done.Go(func() { s.accept(ctx, log) })
	return s, nil
}

// accept serves connections until the listener is closed.
func (s *Store) accept(ctx context.Context, log *slog.Logger) {
	failing := false
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
		case s.places <- struct{}{}:
		default:
			_ = c.SetWriteDeadline(time.Now().Add(acceptPause))
			_, _ = c.Write([]byte("-ERR max number of clients reached\r\n"))
			_ = c.Close()
			continue
		}
		bounded, err := newConn(c, s.password, &s.pending, sync.OnceFunc(func() { <-s.places }))
		if err != nil {
			_ = bounded.Close() // closed before it began
			continue
		}
		s.redis.Server().ServeConn(bounded)
	}
}

// Addr is where a client reaches the store: host:port.
func (s *Store) Addr() string { return s.listener.Addr().String() }

// URL is the address as a setting: redis://[:password@]host:port.
func (s *Store) URL() string {
	if s.password == "" {
		return URL(s.Addr())
	}
	return URL(s.password + "@" + s.Addr())
}

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
