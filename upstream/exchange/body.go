package exchange

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

// Limit is how many bytes a response may have: what the other responses of the same document have
// left of their common maximum. A body takes its bytes while it is read, and gives them back unless
// it is returned.
type Limit struct {
	Left *atomic.Int64
	Most int64
}

// readBody reads a response to its end, decompressed, if it is JSON and within its size limit, on the
// wire and after decompression. Its errors are *FaultError and contain nothing of the body.
func readBody(resp *http.Response, limit Limit) (body []byte, err error) {
	if err := checkType(resp.Header); err != nil {
		if err.Kind == FaultPage {
			media, _ := mediaType(resp.Header)
			err.Text = "want JSON, got " + pageKind(beginning(resp)) + " (" + media + ")"
		}
		return nil, err
	}
	left := limit.Left.Load()
	if resp.ContentLength > left {
		return nil, tooLarge(limit.Most)
	}
	counted := &capped{in: unpacked(resp.Body, left, limit.Most), limit: limit}
	if body, err = io.ReadAll(counted); err != nil {
		err = damaged(err)
	} else {
		err = checkBody(body, resp.Header)
	}
	if err != nil {
		limit.Left.Add(counted.taken)
		return nil, err
	}
	return body, nil
}

// maxCodings is how often a body can be compressed.
const maxCodings = 3

// unpacked is a body without its compression, which its first bytes show, whatever Content-Encoding
// says: some servers announce gzip and send none, or name a charset there. At most so many bytes
// may be read at each step.
func unpacked(in io.Reader, most, limit int64) io.Reader {
	for range maxCodings {
		left := new(atomic.Int64)
		left.Store(most)
		packed := bufio.NewReaderSize(&capped{in: in, limit: Limit{left, limit}}, 4<<10)
		if !isGzip(packed) {
			return packed
		}
		in = &members{packed: packed}
	}
	return in
}

func isGzip(in *bufio.Reader) bool {
	head, _ := in.Peek(2)
	return string(head) == "\x1f\x8b"
}

// members reads the members of a gzip stream, and nothing of what follows them.
type members struct {
	packed *bufio.Reader
	member *gzip.Reader // nil before the first
}

func (m *members) Read(p []byte) (n int, err error) {
	if m.member == nil {
		if m.member, err = gzip.NewReader(m.packed); err != nil {
			return 0, err
		}
		m.member.Multistream(false)
	}
	for {
		n, err = m.member.Read(p)
		switch {
		case n > 0 && errors.Is(err, io.EOF):
			return n, nil // the next call ends the member
		case !errors.Is(err, io.EOF):
			return n, err
		}
		if err := m.member.Reset(m.packed); errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, io.EOF
		} else if err != nil {
			return 0, err
		}
		m.member.Multistream(false)
	}
}

// damaged turns an error of reading into one of the body: too large, cut off, or damaged.
func damaged(err error) error {
	if known, ok := errors.AsType[*FaultError](err); ok {
		return known
	}
	return &FaultError{Kind: FaultDamaged, Text: "the body is cut short or damaged", Err: err}
}

// tooLarge is the error of a body, or of several together, beyond the limit.
func tooLarge(limit int64) error {
	return &FaultError{Text: fmt.Sprintf("the body is larger than %d bytes", limit)}
}

// capped fails a read beyond its limit, where io.LimitReader would just end.
type capped struct {
	in    io.Reader
	limit Limit
	taken int64
}

func (c *capped) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.taken += int64(n)
	if c.limit.Left.Add(-int64(n)) < 0 {
		return 0, tooLarge(c.limit.Most)
	}
	return n, err
}

// isCutShort reports whether body begins like a document but does not end like one. HTTP framing
// does not always show that: a body can end with its connection, and a proxy can frame half a body
// correctly.
func isCutShort(body []byte) bool {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return true
	}
	begins := body[0] == '{' || body[0] == '['
	ends := body[len(body)-1] == '}' || body[len(body)-1] == ']'
	return begins && (!ends || len(body) == 1)
}

// checkType refuses a response whose Content-Type is missing, not JSON or not UTF-8.
func checkType(h http.Header) *FaultError {
	media, charset := mediaType(h)
	switch {
	case media == "":
		return &FaultError{Text: "want JSON, got an answer without a Content-Type"}
	case isHTML(media):
		return &FaultError{Kind: FaultPage, Text: fmt.Sprintf("want JSON, got an HTML page (%s)", media)}
	case !isJSON(media):
		return &FaultError{Text: fmt.Sprintf("want JSON, got Content-Type %q", clip(media))}
	case charset != "" && !strings.HasPrefix(charset, "utf-8") && !slices.Contains([]string{"utf8", "us-ascii", "ascii"}, charset):
		return &FaultError{Text: fmt.Sprintf("want UTF-8, got charset %q", clip(charset))}
	}
	return nil
}

// checkBody refuses a body labelled as JSON with a 200 that is a page or an error. The document
// itself is checked later.
func checkBody(body []byte, h http.Header) error {
	trimmed := bytes.TrimLeft(body, "\xef\xbb\xbf \t\r\n")
	encoding := strings.Join(h.Values("Content-Encoding"), ", ")
	switch {
	case len(trimmed) == 0:
		return damaged(errors.New("it is empty"))
	case trimmed[0] == '<':
		return &FaultError{Kind: FaultPage, Text: "want JSON, got " + pageKind(trimmed) + " that says it is JSON"}
	case encoding != "" && !strings.Contains(encoding, "gzip") && !bytes.ContainsAny(trimmed[:1], `{["-0123456789tfn`):
		return &FaultError{Text: fmt.Sprintf("want gzip or no encoding, got Content-Encoding %q", clip(encoding))}
	case isCutShort(trimmed):
		return damaged(io.ErrUnexpectedEOF)
	case trimmed[0] == '{':
		if said, ok := readEnvelope(trimmed, false); ok {
			reason := "want a document, got an error with status 200"
			if said.name != "" {
				reason += " (" + said.name + ")"
			}
			return &FaultError{Kind: FaultPage, Text: reason}
		}
	}
	return nil
}

// maxDrain is how much of an unwanted body is read to keep its connection.
const maxDrain = 4 << 10

// drain makes the connection of resp reusable, if little is left of its body.
func drain(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain) // only for the connection's sake
	_ = resp.Body.Close()
}
