//go:build !race

package listen

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// A lean is a socket whose system calls Go's scheduler is not told of: it does not block, and a call
// copies less than [largeWrite], so it is over in microseconds. That saves 17 to 20 % of the
// processor time of a hit (13.8 of 16.2 µs for 2.7 KB, 20.9 of 25.3 µs for 61 KB), and with few
// requests the thread that otherwise wakes to watch each call. The scheduler cannot give the
// processor to others meanwhile, so large writes are made in the usual way.
//
// While its service waits for a request it has no buffer: a read of a single byte reads everything
// available, in one system call. A write of a full buffer of the service is kept until the next one,
// which is usually the rest of the answer, so that one system call has both and the rest is never
// copied: a client that reads slowly holds up no buffer for it.
//
// It is optional (lean_portable.go), and for one goroutine. The race detector does not see these
// calls, and goes without.
type lean struct {
	net.Conn
	raw syscall.RawConn

	buffer     *readBuffer   // nil if empty
	readFailed syscall.Errno // 0 if it did not

	head        *writeBuffer // to be written before what is left; nil if empty
	left        []byte
	writeFailed syscall.Errno

	readable, writable func(fd uintptr) bool // fill and send, bound once
}

// A readBuffer has room for what most clients send at once, and the rest of that, which is not empty.
type readBuffer struct {
	room [4 << 10]byte
	rest []byte
}

// A writeBuffer has room for a full buffer of the service, also as a record of TLS, and the rest of
// that, which is not empty.
type writeBuffer struct {
	room [Buffer + 32]byte
	rest []byte
}

// Buffer is how much of an answer a service is to write at once.
const Buffer = 4 << 10

var (
	readBuffers  = sync.Pool{New: func() any { return new(readBuffer) }}
	writeBuffers = sync.Pool{New: func() any { return new(writeBuffer) }}
)

// lighten returns a connection that does as c does, at less cost if c is a socket.
func lighten(c net.Conn) net.Conn {
	if socket, ok := c.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			l := &lean{Conn: c, raw: raw}
			l.readable, l.writable = l.fill, l.send
			return l
		}
	}
	return c
}

// Read reads from the buffer, or from the socket.
func (l *lean) Read(p []byte) (int, error) {
	if l.head != nil { // nothing followed
		if _, err := l.write(nil); err != nil {
			return 0, err
		}
	}
	if l.buffer == nil {
		if len(p) != 1 {
			return l.Conn.Read(p)
		}
		if err := l.raw.Read(l.readable); err != nil {
			return 0, err
		}
	}
	b := l.buffer
	if b == nil {
		if l.readFailed != 0 {
			return 0, os.NewSyscallError("read", l.readFailed)
		}
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		readBuffers.Put(b)
		l.buffer = nil
	}
	return n, nil
}

// fill reads into a buffer, and reports whether it need not wait for that.
func (l *lean) fill(fd uintptr) bool {
	b, _ := readBuffers.Get().(*readBuffer)
	var n int
	n, l.readFailed = call(syscall.SYS_READ, fd, unsafe.Pointer(&b.room), len(b.room)) //nolint:gosec // the system needs the address
	if n > 0 {
		l.buffer, b.rest = b, b.room[:n]
		return true
	}
	readBuffers.Put(b)
	return l.readFailed != syscall.EAGAIN
}

// call makes a system call that does not block, again while a signal interrupts it.
func call(number, fd uintptr, p unsafe.Pointer, n int) (done int, failed syscall.Errno) {
	for {
		r, _, failed := syscall.RawSyscall(number, fd, uintptr(p), uintptr(n))
		if failed != syscall.EINTR {
			return int(r), failed
		}
	}
}

// Write writes all of p, or keeps it if it is a full buffer.
func (l *lean) Write(p []byte) (int, error) {
	if l.head == nil && Buffer <= len(p) && len(p) <= len(l.head.room) {
		l.head, _ = writeBuffers.Get().(*writeBuffer)
		l.head.rest = append(l.head.room[:0], p...)
		return len(p), nil
	}
	if len(p) < largeWrite {
		return l.write(p)
	}
	if _, err := l.write(nil); err != nil {
		return 0, err
	}
	return l.Conn.Write(p)
}

// Close writes what was kept, and closes the connection.
func (l *lean) Close() error {
	_, _ = l.write(nil) // it fails if the client has gone
	return l.Conn.Close()
}

// write writes what was kept, and all of p.
func (l *lean) write(p []byte) (int, error) {
	if l.head == nil && len(p) == 0 {
		return 0, nil
	}
	l.left = p
	err := l.raw.Write(l.writable)
	if err == nil && l.writeFailed != 0 {
		err = os.NewSyscallError("writev", l.writeFailed)
	}
	n := len(p) - len(l.left)
	l.left = nil
	if err != nil {
		l.drop()
	}
	return n, err
}

// send writes as much as the socket accepts, and reports whether it need not wait for more.
func (l *lean) send(fd uintptr) bool {
	for l.writeFailed = 0; l.writeFailed == 0 && (l.head != nil || len(l.left) > 0); {
		var parts [2]syscall.Iovec
		if l.head != nil {
			parts[0].Base = &l.head.rest[0]
			parts[0].SetLen(len(l.head.rest))
		}
		if len(l.left) > 0 {
			parts[1].Base = &l.left[0]
			parts[1].SetLen(len(l.left))
		}
		var n int
		n, l.writeFailed = call(syscall.SYS_WRITEV, fd, unsafe.Pointer(&parts), len(parts)) //nolint:gosec // as in fill
		if n = max(n, 0); l.head != nil {
			kept := min(n, len(l.head.rest))
			if l.head.rest, n = l.head.rest[kept:], n-kept; len(l.head.rest) == 0 {
				l.drop()
			}
		}
		l.left = l.left[n:]
	}
	return l.writeFailed != syscall.EAGAIN
}

// drop gives the buffer of what was kept back.
func (l *lean) drop() {
	if l.head != nil {
		writeBuffers.Put(l.head)
		l.head = nil
	}
}
