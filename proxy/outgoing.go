package proxy

import (
	"net"
	"sync"

	"vitrine/proxy/represent"
)

// maxPieces is the number of pieces written at a time: enough for a header and a body, or some
// kilobytes of a body written item by item.
const maxPieces = 64

// outgoing is the prepared part of an answer, which a connection writes together with fasthttp's
// own lines.
type outgoing struct {
	pieces [maxPieces][]byte
	n      int // of pieces: lines of the header, then the body
	items  represent.Items
	next   int  // of items
	more   bool // items are left
	lease  represent.Lease

	buffers net.Buffers // being written; a field, to avoid an allocation
}

var outgoings = sync.Pool{New: func() any { return new(outgoing) }}

func newOutgoing() *outgoing {
	o, _ := outgoings.Get().(*outgoing)
	o.n = 1 // the first is fasthttp's
	return o
}

// add adds a piece, which must not change until it is written.
func (o *outgoing) add(piece []byte) {
	o.pieces[o.n] = piece
	o.n++
}

// content adds the content of a representation, which is the last piece.
func (o *outgoing) content(rep *represent.Representation, lease represent.Lease) {
	o.lease = lease
	if rep.Body != nil {
		o.add(rep.Body)
		return
	}
	o.items, o.more = rep.Items, true
}

// release ends the answer, written or not.
func (o *outgoing) release() {
	o.lease.Release()
	*o = outgoing{}
	outgoings.Put(o)
}

// headEnd ends a header.
var headEnd = []byte("\r\n\r\n")

// buffersWriter is a connection that writes many pieces at once, as those of listen do.
type buffersWriter interface {
	WriteBuffers(pieces *net.Buffers) error
}

// writeTo writes the answer after a header of fasthttp's: in one system call if c is a
// [buffersWriter], as far as the system accepts it.
func (o *outgoing) writeTo(c net.Conn, head []byte) error {
	o.pieces[0] = head[:len(head)-len("\r\n")] // the prepared part has the end of the header
	for {
		if o.more {
			var pieces [][]byte
			var done bool
			pieces, o.next, done = o.items.Pieces(o.pieces[:o.n], o.next)
			o.n, o.more = len(pieces), !done
		}
		o.buffers = o.pieces[:o.n]
		if w, ok := c.(buffersWriter); ok {
			if err := w.WriteBuffers(&o.buffers); err != nil {
				return err
			}
		} else if _, err := o.buffers.WriteTo(c); err != nil {
			return err
		}
		if !o.more {
			return nil
		}
		o.n = 0
	}
}
