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

// A lean is a connection's socket without a buffer while its service waits for a request: a read of
// a single byte reads everything available, in one system call.
//
// The socket does not block, and a call copies less than [rawBytes], so it is over in microseconds,
// and Go's scheduler need not be told of it. That saves a sixth of the time of a hit, and with few
// requests the thread that otherwise wakes to watch each call. The scheduler cannot give the
// processor to others meanwhile, so whatever is larger is written in the usual way. The race
// detector does not see these calls, so it gets lean_portable.go.
type lean struct {
	net.Conn
	raw  syscall.RawConn       // nil if it is no socket
	wait func(fd uintptr) bool // fill, bound once

	buffer *readBuffer // nil if empty
}

// A readBuffer has room for what most clients send at once.
type readBuffer struct {
	room   [4 << 10]byte
	rest   []byte        // of room, unread; empty at the end, or if the read failed
	failed syscall.Errno // 0 at the end
}

var readBuffers = sync.Pool{New: func() any { return new(readBuffer) }}

func newLean(c net.Conn) *lean {
	l := &lean{Conn: c}
	if socket, ok := c.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			l.raw, l.wait = raw, l.fill
		}
	}
	return l
}

// buffered reports whether a read would not wait.
func (l *lean) buffered() bool { return l.buffer != nil }

// Read reads from the buffer, or from the socket.
func (l *lean) Read(p []byte) (int, error) {
	if l.buffer == nil {
		if len(p) != 1 || l.raw == nil {
			return l.Conn.Read(p)
		}
		if err := l.raw.Read(l.wait); err != nil {
			return 0, err
		}
	}
	b := l.buffer
	n, failed := copy(p, b.rest), b.failed
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		readBuffers.Put(b)
		l.buffer = nil
	}
	switch {
	case n > 0, len(p) == 0:
		return n, nil
	case failed != 0:
		return 0, os.NewSyscallError("read", failed)
	}
	return 0, io.EOF
}

// fill reads into a buffer, and reports whether it need not wait for that.
func (l *lean) fill(fd uintptr) bool {
	b, _ := readBuffers.Get().(*readBuffer)
	n, failed := call(syscall.SYS_READ, fd, unsafe.Pointer(&b.room), len(b.room)) //nolint:gosec // the system needs the address
	if failed == syscall.EAGAIN {
		readBuffers.Put(b)
		return false
	}
	l.buffer, b.rest, b.failed = b, b.room[:max(n, 0)], failed
	return true
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

// rawBytes is from how many bytes on the scheduler is told of a write.
const rawBytes = 64 << 10

// Write writes all of p.
func (l *lean) Write(p []byte) (int, error) {
	if err := l.write([][]byte{p}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// write writes all of pieces, at most 1,024 (IOV_MAX), in one system call as far as the system
// accepts them, but many bytes in turns.
func (l *lean) write(pieces [][]byte) error {
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	if size >= rawBytes || l.raw == nil {
		return writeInTurns(l.Conn, pieces)
	}
	v, _ := vectors.Get().(*vector)
	defer v.release()
	return v.write(l.raw, pieces)
}

// A vector has pieces to write.
type vector struct {
	pieces []syscall.Iovec
	left   []syscall.Iovec // of pieces
	failed syscall.Errno
	wait   func(fd uintptr) bool // send, bound once
}

var vectors = sync.Pool{New: func() any {
	v := new(vector)
	v.wait = v.send
	return v
}}

func (v *vector) write(to syscall.RawConn, pieces [][]byte) error {
	for _, p := range pieces {
		if len(p) > 0 { // so that the first of those left never is empty
			piece := syscall.Iovec{Base: &p[0]}
			piece.SetLen(len(p))
			v.pieces = append(v.pieces, piece)
		}
	}
	v.left = v.pieces
	if err := to.Write(v.wait); err != nil {
		return err
	}
	if v.failed != 0 {
		return os.NewSyscallError("writev", v.failed)
	}
	return nil
}

// send writes as much as the system accepts, and reports whether that was all, or failed.
func (v *vector) send(fd uintptr) bool {
	for len(v.left) > 0 {
		n, failed := call(syscall.SYS_WRITEV, fd, unsafe.Pointer(&v.left[0]), len(v.left)) //nolint:gosec // as in fill
		if failed != 0 {
			v.failed = failed
			return failed != syscall.EAGAIN
		}
		for len(v.left) > 0 && n >= int(v.left[0].Len) { //nolint:gosec // a slice's length
			n -= int(v.left[0].Len) //nolint:gosec // the same
			v.left = v.left[1:]
		}
		if n > 0 {
			first := &v.left[0]
			first.Base = (*byte)(unsafe.Add(unsafe.Pointer(first.Base), n)) //nolint:gosec // within the slice
			first.SetLen(int(first.Len) - n)                                //nolint:gosec // the same
		}
	}
	v.failed = 0
	return true
}

func (v *vector) release() {
	clear(v.pieces)
	v.pieces, v.left, v.failed = v.pieces[:0], nil, 0
	vectors.Put(v)
}
