// Package listen opens the sockets for clients, and ends their connections.
//
// A [Socket] accepts connections at a TCP port or a unix socket, and continues after a lack of
// descriptors or memory. A [Listener] has those of a service: with TLS if it has a [Certificate],
// which is read again when its files change. When the program ends, [Listener.Drain] closes each
// connection once it is idle.
//
// The package knows nothing about HTTP, except that TLS announces HTTP/1.1 and that a service waits
// for a request by a read of a single byte, and writes from a buffer of [Buffer].
package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// unixScheme is the prefix of a unix socket's address: unix:/run/vitrine.sock.
const unixScheme = "unix:"

// socketMode lets everybody on this machine connect, which needs write permission. The folder's
// permissions restrict that.
const socketMode = 0o666

// SocketPath returns the path of a unix socket's address, and whether address is one.
func SocketPath(address string) (path string, ok bool) { return strings.CutPrefix(address, unixScheme) }

// A Socket listens. It implements [net.Listener]; accepted connections outlive it.
type Socket struct {
	net.Listener
	log *slog.Logger
}

// Open listens on HOST:PORT, or on the unix socket unix:PATH. A socket file that nothing listens on
// is replaced; otherwise, or if the file is not a socket, the error is syscall.EADDRINUSE. Nothing
// is accepted before [Socket.Accept], and log receives failures.
func Open(ctx context.Context, address string, log *slog.Logger) (*Socket, error) {
	l, err := open(ctx, address)
	if err != nil {
		return nil, err
	}
	return Take(l, log), nil
}

// Take is [Open] for a socket that another process has opened.
func Take(l net.Listener, log *slog.Logger) *Socket {
	return &Socket{l, log}
}

// Pauses after a failed accept, as in net/http.
const (
	firstPause = 5 * time.Millisecond
	mostPause  = time.Second
)

// Accept waits for a connection. Its error is net.ErrClosed once the socket is closed. Every other
// error is temporary: a lack of descriptors or memory, or a client that is gone (ECONNABORTED,
// EPROTO).
func (s *Socket) Accept() (net.Conn, error) {
	pause, failures := firstPause, 0
	for {
		c, err := s.Listener.Accept()
		switch {
		case err == nil:
			if failures > 0 {
				s.log.Info("accepting connections again", "address", s.Addr().String(), "failures", failures)
			}
			return c, nil
		case errors.Is(err, net.ErrClosed):
			return nil, net.ErrClosed
		}
		if failures++; failures == 1 {
			s.log.Warn("cannot accept connections, retrying", "address", s.Addr().String(), "error", err)
		}
		<-time.After(pause)
		pause = min(2*pause, mostPause)
	}
}

func open(ctx context.Context, address string) (net.Listener, error) {
	path, ok := SocketPath(address)
	if !ok {
		return new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	if err := removeLeftOver(ctx, path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// removeLeftOver removes the socket at path if nothing listens on it, as after a crash. Its error
// is syscall.EADDRINUSE if something does, or if the file is not a socket.
func removeLeftOver(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%w: the file is not a socket", syscall.EADDRINUSE)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close() // nothing was sent
		return syscall.EADDRINUSE
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return err // a full backlog, or no permission to connect: it is in use
}
