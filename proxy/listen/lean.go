package listen

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// A lean is a connection's socket without a buffer while its service waits for a request: a read of
// a single byte reads everything available, in one system call.
type lean struct {
	net.Conn
	raw  syscall.RawConn
	wait func(fd uintptr) bool // fill, bound once

	buffer  *readBuffer // nil if empty
	unread  []byte      // the rest of buffer
	failure error       // of the last fill
}

// A readBuffer has room for what most clients send at once.
type readBuffer [4 << 10]byte

var readBuffers = sync.Pool{New: func() any { return new(readBuffer) }}

// newLean returns c itself if it is not a socket.
func newLean(c net.Conn) net.Conn {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return c
	}
	l := &lean{Conn: c, raw: raw}
	l.wait = l.fill
	return l
}

// Read reads from the buffer, or from the socket.
func (l *lean) Read(p []byte) (int, error) {
	if l.buffer == nil {
		if len(p) != 1 {
			return l.Conn.Read(p)
		}
		if err := l.raw.Read(l.wait); err != nil {
			return 0, err
		}
		if l.failure != nil {
			return 0, l.failure
		}
	}
	n := copy(p, l.unread)
	if l.unread = l.unread[n:]; len(l.unread) == 0 {
		readBuffers.Put(l.buffer)
		l.buffer, l.unread = nil, nil
	}
	return n, nil
}

// fill reads into a buffer if data is available, or records the end, and reports whether it did.
func (l *lean) fill(fd uintptr) bool {
	b, _ := readBuffers.Get().(*readBuffer)
	n, err := syscall.Read(int(fd), b[:])
	for err == syscall.EINTR { //nolint:errorlint // as it comes from the system
		n, err = syscall.Read(int(fd), b[:])
	}
	if n > 0 {
		l.buffer, l.unread = b, b[:n]
		return true
	}
	readBuffers.Put(b)
	switch err { //nolint:errorlint // as above
	case syscall.EAGAIN:
		return false
	case nil:
		l.failure = io.EOF
	default:
		l.failure = os.NewSyscallError("read", err)
	}
	return true
}

// WriteBuffers writes all of pieces, in one system call as far as the system accepts them. They are
// consumed.
func (l *lean) WriteBuffers(pieces *net.Buffers) error {
	_, err := pieces.WriteTo(l.Conn)
	return err
}

// A gatherer writes many pieces in one system call.
type gatherer interface {
	WriteBuffers(pieces *net.Buffers) error
}

// WriteBuffers writes all of pieces: in one system call as far as the system accepts them, or in
// records of TLS. They are consumed.
func (c *conn) WriteBuffers(pieces *net.Buffers) error {
	if g, ok := c.Conn.(gatherer); ok {
		return g.WriteBuffers(pieces)
	}
	b, _ := records.Get().(*[]byte)
	defer records.Put(b)
	joined := (*b)[:0]
	for _, p := range *pieces {
		for len(p) > 0 {
			n := min(len(p), cap(joined)-len(joined))
			joined, p = append(joined, p[:n]...), p[n:]
			if len(joined) < cap(joined) {
				break
			}
			if _, err := c.Conn.Write(joined); err != nil {
				return err
			}
			joined = joined[:0]
		}
	}
	if len(joined) == 0 {
		return nil
	}
	_, err := c.Conn.Write(joined)
	return err
}

// records have room for one record of TLS each.
var records = sync.Pool{New: func() any {
	b := make([]byte, 0, 16<<10)
	return &b
}}
