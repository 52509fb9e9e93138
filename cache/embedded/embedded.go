// Package embedded is a store inside the process that speaks Redis's protocol, for a machine
// without a Redis. It is miniredis on loopback, with bounds, a clock that expires keys, and INFO added.
//
// One command goes through it in this order:
//
//  1. a connection is accepted, if there are fewer than 256;
//  2. a command is read word by word, within bounds of length and time (conn.go);
//  3. it is refused if neither vitrine nor an operator's redis-cli needs it (commands.go), or if it
//     would store more than there is room for (memory.go);
//  4. miniredis executes it; a panic is one failed command.
//
// Keys expire by the clock that TIME shows, neither earlier nor later.
package embedded

import (
	"bufio"
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
	// acceptPause is the pause after a failed accept, perhaps for lack of descriptors.
	acceptPause = 50 * time.Millisecond
	// maxConnections bounds the connections. More are refused.
	maxConnections = 256
)

// A Store is a running embedded store.
type Store struct {
	redis    *miniredis.Miniredis
	commands *commands
	listener net.Listener
	cancel   context.CancelFunc
	done     sync.WaitGroup
}

const host = "127.0.0.1"

// DefaultAddr is where a store listens if no address is given and the port is free.
const DefaultAddr = host + ":6380"

// Start listens on loopback: addr is PORT or 127.0.0.1:PORT, where port 0 means any free one. If it
// is "", that is [DefaultAddr], or any free port if that is taken, with a warning to log, unless
// nil.
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
	s := &Store{redis: redis, listener: listener, cancel: cancel}
	s.commands = &commands{redis: redis, memory: &memory{redis: redis, most: maxStored}, scripts: lease.IsScript, log: log, runID: rand.Text()}
	redis.ClockTTL(true)
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
		s.done.Go(func() {
			s.serve(ctx, &conn{Conn: c, in: bufio.NewReader(c), scripts: lease.IsScript, large: large})
			<-places
		})
	}
}

// serve runs a client's commands, until it leaves or the store is closed.
func (s *Store) serve(ctx context.Context, c *conn) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer c.Close() //nolint:errcheck // it has ended
	peer := server.NewPeer(bufio.NewWriter(c))
	defer c.endLarge()
	for err := c.SetReadDeadline(time.Now().Add(commandTime)); err == nil && !peer.Closed(); err = c.wait() {
		again := c.in.Buffered() > 0 // a pipeline goes on: it has one time
		words, err := c.command()
		if errors.Is(err, errProtocol) {
			peer.WriteError("ERR Protocol error: want an array of bulk strings, within the bounds of the embedded store")
			peer.Flush()
		}
		if err != nil {
			return
		}
		if !again {
			s.commands.tick()
		}
		s.commands.run(peer, words)
		peer.Flush()
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
	s.redis.Close()
}
