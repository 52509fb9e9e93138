// Package listen opens what clients connect to: a TCP port or a unix socket, either with TLS in front.
//
// One connection is accepted from the socket ([Open]). With TLS it then gets the certificate that is current at that
// moment: a [Certificate] is read from two files when the program starts, looked at again every second, and replaced
// as a whole when both files hold a new pair. Connections that are open keep the one they began with.
//
// The package knows nothing of HTTP, except that TLS announces HTTP/1.1.
package listen

import (
	"context"
	"net"
	"strings"
)

// unixScheme begins the address of a unix socket: unix:/run/vitrine.sock.
const unixScheme = "unix:"

// SocketPath returns the path of a unix socket's address, and whether address is one.
func SocketPath(address string) (path string, ok bool) { return strings.CutPrefix(address, unixScheme) }

// Open listens on HOST:PORT, or on the unix socket unix:PATH. A socket file that nobody listens on is replaced; one
// that is in use is left alone and an error that is syscall.EADDRINUSE, and so is a file that is no socket. Everybody
// on this machine may connect to the socket, as to a port: who else may not is for the folder's permissions to say.
// The file is removed when the listener is closed.
func Open(ctx context.Context, address string) (net.Listener, error) {
	if path, ok := SocketPath(address); ok {
		return openSocket(ctx, path)
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}
