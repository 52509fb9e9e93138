// Package reply bounds what a Redis server sends before a client parses it. A client allocates what a
// reply announces, and follows its nesting: four bytes of a server can end a process.
package reply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// What a reply may have, of RESP2 and RESP3, beside the length of a bulk.
const (
	mostLine     = 64 << 10
	mostElements = 1 << 20
	mostDepth    = 8
	mostBeside   = 16 << 20 // bytes between two deadlines, beside one bulk
	headLength   = 24       // of a line, what a length can take
)

// ErrBounds means that the server has sent what no command of vitrine's is answered with.
var ErrBounds = errors.New("redis: a reply that is too long, too deep or no RESP")

// Bound returns c, which ends with ctx, or with the first reply that exceeds the bounds, of which bulk is
// the length of one.
func Bound(ctx context.Context, c net.Conn, bulk int) net.Conn {
	b := &bounded{Conn: c, most: bulk, stop: context.AfterFunc(ctx, func() { _ = c.Close() })}
	if raw, ok := c.(syscall.Conn); ok { // not TLS, where what has come is not all data
		return struct { // go-redis checks whether the other side has closed it
			*bounded
			syscall.Conn
		}{b, raw}
	}
	return b
}

// A bounded connection follows the replies that are read.
type bounded struct {
	net.Conn
	stop     func() bool // that ends it with its context
	most     int         // the length of a bulk
	head     []byte      // of the present line
	line     int         // how much of it has come
	bulk     int         // bytes that are left of a bulk, its line end included
	left     []int       // elements that are left, by depth
	elements int         // of the present reply
	read     int         // bytes since a deadline was set
	exceeded bool
}

func (b *bounded) Close() error {
	b.stop()
	return b.Conn.Close()
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.exceeded { // go-redis reads again
		return 0, ErrBounds
	}
	n, err := b.Conn.Read(p)
	if b.exceeded = !b.follow(p[:n]); b.exceeded {
		_ = b.Close()
		return 0, ErrBounds
	}
	return n, err
}

// SetReadDeadline is called for each reply that is awaited.
func (b *bounded) SetReadDeadline(t time.Time) error {
	b.read = 0
	return b.Conn.SetReadDeadline(t)
}

// follow reports whether p keeps within the bounds.
func (b *bounded) follow(p []byte) bool {
	if b.read += len(p); b.read > b.most+mostBeside {
		return false
	}
	for len(p) > 0 {
		took, ok := b.step(p)
		if !ok {
			return false
		}
		p = p[took:]
	}
	return true
}

// step follows p to the end of a line or bulk, and reports how many bytes that were.
func (b *bounded) step(p []byte) (took int, ok bool) {
	if b.bulk > 0 {
		took = min(b.bulk, len(p))
		if b.bulk -= took; b.bulk == 0 {
			b.end()
		}
		return took, true
	}
	took = bytes.IndexByte(p, '\n') + 1
	ended := took > 0
	if !ended {
		took = len(p)
	}
	b.head = append(b.head, p[:min(took, headLength-len(b.head))]...)
	if b.line += took; b.line > mostLine {
		return took, false
	}
	if ended {
		ok = b.begin(string(bytes.TrimRight(b.head, "\r\n")))
		b.head, b.line = b.head[:0], 0
		return took, ok
	}
	return took, true
}

// begin begins the element that a line announces, or is.
func (b *bounded) begin(line string) bool {
	if line == "" {
		return false
	}
	switch line[0] {
	case '+', '-', ':', '_', '#', ',', '(':
		b.end()
		return true
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < -1 || len(line) == headLength { // of a longer one only the head was kept
		return false
	}
	switch line[0] {
	case '$', '=', '!':
		if n > b.most {
			return false
		}
		if b.bulk = n + len("\r\n"); n < 0 { // null
			b.bulk = 0
			b.end()
		}
		return true
	case '*', '~':
	case '%':
		n = 2 * min(n, mostElements)
	default: // pushes and attributes, too: no command of ours asks for them
		return false
	}
	if b.elements += max(n, 0); b.elements > mostElements || len(b.left) == mostDepth {
		return false
	}
	if n > 0 {
		b.left = append(b.left, n)
	} else {
		b.end()
	}
	return true
}

// end ends an element, and with the last one of an aggregate that as well.
func (b *bounded) end() {
	for n := len(b.left); n > 0; n = len(b.left) {
		if b.left[n-1]--; b.left[n-1] > 0 {
			return
		}
		b.left = b.left[:n-1]
	}
	b.elements = 0
}

// Recover calls f, and makes an error of its panic: a client's parsers index and assert what a server
// sends.
func Recover(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("redis: panic over a reply: %v", p)
		}
	}()
	return f()
}
