package proxy

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"vitrine/cache"
	"vitrine/proxy/negotiate"
	"vitrine/proxy/represent"
)

// document answers at a route.
func (s *Server) document(at *route) fiber.Handler {
	return func(c *fiber.Ctx) error {
		r := requestOf(c)
		r.route = at
		if r.ctx.IsOptions() && r.isPreflight() {
			r.answerPreflight()
			return nil
		}
		key, err := r.form()
		switch {
		case err != nil:
			return err
		case r.ctx.IsGet(), r.ctx.IsHead():
			return s.read(r, key)
		case r.ctx.IsOptions():
			r.describe(int(key.Indent))
			return nil
		}
		return errMethod
	}
}

// form is the form that the request asks for. Its checks come before that of the method, in the
// order of Django REST Framework.
func (r *request) form() (key represent.Key, err error) {
	q := negotiate.ParseQuery(r.ctx.URI().QueryString())
	f := negotiate.ParseFormat(q.Format)
	if f == negotiate.FormatUnknown {
		return key, errFormat
	}
	indent, ok := negotiate.Indent(r.accept, f)
	if !ok {
		return key, errNotAcceptable
	}
	key.Indent = uint8(indent) //nolint:gosec // at most negotiate.MaxIndent
	if r.route.sortable && len(q.Ordering) > 0 {
		key.Ordering = negotiate.ParseOrdering(q.Ordering)
	}
	return key, nil
}

// read answers with the document, or with 304 or 412 by the request's conditions.
func (s *Server) read(r *request, key represent.Key) error {
	clientOf(r.ctx).leave()
	a, err := r.route.documents.Get(r)
	r.observeDocument(&a.Status, err)
	if err != nil {
		r.writeForwarded(&a.Status, err)
		return fmt.Errorf("%s: %w", r.route.resource, err)
	}
	return s.answer(r, key, &a)
}

// answer is the part of read that follows the look at memory, so that an idle connection need not
// keep the stack that both would take together.
func (s *Server) answer(r *request, key represent.Key, a *cache.Answer[*represent.Document]) error {
	now := r.ctx.Time()                                        // a hit took no time
	if now.IsZero() || a.Status.Detail != cache.DetailMemory { // anything else may have waited
		now = time.Now()
	}
	m := r.route.moments.at(s.terms, a.Document, &a.Status, now)
	rep, lease := a.Value.Get(key, negotiate.ChooseEncoding(r.acceptEncoding))
	verdict := r.conditions.Evaluate(rep.Tag, m.lastModified, m.modified, now)
	if verdict == negotiate.Failed {
		lease.Release()
		return errPrecondition
	}
	r.moment, r.encoding = m, rep.Encoding
	coding := negotiate.Encoding(noCodings)
	if rep.Varies {
		coding = rep.Encoding
	}
	out := newOutgoing()
	out.add(s.terms.cors.origins[string(r.origin)].text)
	if r.ctx.IsTLS() {
		out.add(s.terms.hsts.text)
	}
	out.add(m.lines)
	out.add(rep.Tag)
	out.add(r.route.heads[verdict][coding])
	resp := &r.ctx.Response
	if verdict == negotiate.NotModified {
		lease.Release()
		resp.SetStatusCode(fasthttp.StatusNotModified)
	} else {
		resp.Header.SetContentLength(rep.Size)
		if r.ctx.IsHead() {
			lease.Release()
		} else {
			r.bytes = rep.Size
			out.content(rep, lease)
		}
	}
	resp.SkipBody = true // the connection has it
	out.status = resp.StatusCode()
	clientOf(r.ctx).prepare(out)
	return nil
}

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
