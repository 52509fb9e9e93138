package listen

import (
	"context"
	"log/slog"
	"net"
	"syscall"
)

// OpenBeside is [Open] for an address whose port s has, at another host: 127.0.0.1:80 beside :80.
// Both are open until one is closed, and no other process can join them. Where the system cannot do
// that, its error is syscall.EADDRINUSE.
func (s *Socket) OpenBeside(ctx context.Context, address string, log *slog.Logger) (*Socket, error) {
	held, ok := s.listener.(*net.TCPListener)
	if !ok {
		return nil, syscall.EADDRINUSE
	}
	conn, err := held.SyscallConn()
	if err != nil {
		return nil, err
	}
	if err := sharePort(conn, 1); err != nil {
		return nil, err
	}
	defer func() { _ = sharePort(conn, 0) }() // it could be set
	var made syscall.RawConn
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		made = c
		return sharePort(c, 1)
	}}
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	_ = sharePort(made, 0) // it could be set
	return Take(l, log), nil
}
