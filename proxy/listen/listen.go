// Package listen opens the sockets for clients, and passes them from one service to the next.
//
// One connection goes through it in this order:
//
//  1. a [Socket], a TCP port or a unix socket that is open for as long as the process needs it,
//     accepts the connection, and continues after a lack of descriptors or memory;
//  2. a [Listener], one service's share of the socket, gives it to a service that waits for one,
//     with TLS if it has a [Certificate], which is reloaded when its files change;
//  3. a service that is replaced hands the connection over between two requests
//     ([Listener.HandOver]), unnoticed by the client; one that ends without a successor closes it
//     when it is idle ([Listener.Drain]).
//
// The package knows nothing about HTTP, except that TLS announces HTTP/1.1 and that a connection is
// either idle or busy.
package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
)

// unixScheme is the prefix of a unix socket's address: unix:/run/vitrine.sock.
const unixScheme = "unix:"

// socketMode lets everybody on this machine connect, which needs write permission. The folder's
// permissions restrict that.
const socketMode = 0o666

// SocketPath returns the path of a unix socket's address, and whether address is one.
func SocketPath(address string) (path string, ok bool) { return strings.CutPrefix(address, unixScheme) }

// open listens on HOST:PORT, or on the unix socket unix:PATH.
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
