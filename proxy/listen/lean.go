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

	buffer *readBuffer   // nil if empty
	failed syscall.Errno // the last fill
}

// A readBuffer has room for what most clients send at once.
type readBuffer struct {
	room [4 << 10]byte
	rest []byte // of room, unread
}

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
		switch {
		case l.failed != 0:
			return 0, os.NewSyscallError("read", l.failed)
		case l.buffer == nil:
			return 0, io.EOF
		}
	}
	b := l.buffer
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		readBuffers.Put(b)
		l.buffer = nil
	}
	return n, nil
}

// fill reads into a buffer if data is available, or records the end, and reports whether it did.
func (l *lean) fill(fd uintptr) bool {
	b, _ := readBuffers.Get().(*readBuffer)
	n, err := syscall.Read(int(fd), b.room[:])
	for err == syscall.EINTR {
		n, err = syscall.Read(int(fd), b.room[:])
	}
	if n > 0 {
		l.buffer, l.failed, b.rest = b, 0, b.room[:n]
		return true
	}
	readBuffers.Put(b)
	l.failed, _ = err.(syscall.Errno) //nolint:errorlint // as above; none is the end
	return l.failed != syscall.EAGAIN
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
			if _, err := c.Write(joined); err != nil {
				return err
			}
			joined = joined[:0]
		}
	}
	if len(joined) == 0 {
		return nil
	}
	_, err := c.Write(joined)
	return err
}

// records have room for one record of TLS each.
var records = sync.Pool{New: func() any {
	b := make([]byte, 0, 16<<10)
	return &b
}}
