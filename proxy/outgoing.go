package proxy

import (
	"bytes"
	"net"
	"strconv"
	"sync"

	"vitrine/proxy/represent"
)

// maxPieces is the number of pieces written at a time: enough for a header and a body, or some
// kilobytes of a body written item by item.
const maxPieces = 64

// ownRoom is the room for the lines that fasthttp writes itself, which come first: status, Date,
// Content-Length, Connection.
const ownRoom = 512

// outgoing is the prepared part of an answer, which a connection writes together with fasthttp's
// own lines.
type outgoing struct {
	status int
	room   [2 << 10]byte
	head   []byte // in room: room for fasthttp's lines, then the prepared ones
	pieces [maxPieces][]byte
	n      int // of pieces
	items  represent.Items
	next   int  // of items
	more   bool // items are left
	lease  represent.Lease
}

var outgoings = sync.Pool{New: func() any { return new(outgoing) }}

func newOutgoing() *outgoing {
	o, _ := outgoings.Get().(*outgoing)
	o.head = o.room[:ownRoom]
	o.n = 1 // the header
	return o
}

// add adds lines to the header.
func (o *outgoing) add(lines []byte) { o.head = append(o.head, lines...) }

// content adds the content of a representation, which is the last piece.
func (o *outgoing) content(rep *represent.Representation, lease represent.Lease) {
	o.lease = lease
	if rep.Body != nil {
		o.pieces[o.n] = rep.Body
		o.n++
		return
	}
	o.items, o.more = rep.Items, true
}

// release ends the answer, written or not.
func (o *outgoing) release() {
	o.lease.Release()
	clear(o.pieces[:o.n])
	o.items, o.next, o.more, o.lease = represent.Items{}, 0, false, represent.Lease{}
	outgoings.Put(o)
}

// headEnd ends a header.
var headEnd = []byte("\r\n\r\n")

// follows reports whether p is one whole header, of the answer's status.
func (o *outgoing) follows(p []byte) bool {
	var room [16]byte
	begin := strconv.AppendInt(append(room[:0], "HTTP/1.1 "...), int64(o.status), 10)
	return len(p) <= ownRoom && bytes.HasPrefix(p, begin) && bytes.Index(p, headEnd) == len(p)-len(headEnd)
}

// buffersWriter is a connection that writes many pieces at once, as those of listen do.
type buffersWriter interface {
	WriteBuffers(pieces [][]byte) error
}

// writeTo writes the answer after a header of fasthttp's: in one system call if c is a
// [buffersWriter], as far as the system accepts it.
func (o *outgoing) writeTo(c net.Conn, own []byte) error {
	own = own[:len(own)-len("\r\n")] // the prepared part has the end of the header
	from := ownRoom - len(own)
	copy(o.head[from:], own)
	o.pieces[0] = o.head[from:]
	for {
		if o.more {
			var pieces [][]byte
			var done bool
			pieces, o.next, done = o.items.Pieces(o.pieces[:o.n], o.next)
			o.n, o.more = len(pieces), !done
		}
		if err := o.write(c); err != nil || !o.more {
			return err
		}
		clear(o.pieces[:o.n]) // the pool must not keep a document
		o.n = 0
	}
}

// write writes the pieces.
func (o *outgoing) write(c net.Conn) error {
	if w, ok := c.(buffersWriter); ok {
		return w.WriteBuffers(o.pieces[:o.n])
	}
	buffers := net.Buffers(o.pieces[:o.n])
	_, err := buffers.WriteTo(c)
	return err
}
