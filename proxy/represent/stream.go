package represent

import (
	"bytes"
	"io"
	"sync"
)

// Stream returns the content as a stream of Size bytes if it is not the document's own: a derived
// variant is not dropped before the stream's Close, which has to be called once, since it would use
// memory without being counted; uncached items are read from the document. Otherwise it returns
// nil, and Body is the content.
func (r *Representation) Stream() io.ReadCloser {
	switch {
	case r.Body == nil:
		return &itemStream{items: r.items}
	case r.of == nil:
		return nil
	}
	s, _ := heldStreams.Get().(*heldStream)
	s.Reset(r.Body)
	s.of = r.of
	s.of.leases.Add(1)
	return s
}

// A heldStream reads the body of a derived variant.
type heldStream struct {
	bytes.Reader
	of *held
}

var heldStreams = sync.Pool{New: func() any { return new(heldStream) }}

// Close releases the variant.
func (s *heldStream) Close() error {
	s.of.leases.Add(-1)
	s.Reset(nil) // the pool must not keep a document
	s.of = nil
	heldStreams.Put(s)
	return nil
}

// An itemStream reads items.
type itemStream struct {
	items items
	next  int    // piece
	piece []byte // the rest of the one before
}

// Read implements io.Reader.
func (s *itemStream) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(s.piece) == 0 {
			if s.next == s.items.pieces() {
				return n, io.EOF
			}
			s.piece = s.items.piece(s.next)
			s.next++
		}
		read := copy(p[n:], s.piece)
		n, s.piece = n+read, s.piece[read:]
	}
	return n, nil
}

// Close implements io.Closer.
func (s *itemStream) Close() error { return nil }
