package exchange

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
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

// readBody reads a response to its end, decompressed, if it is JSON in UTF-8 and within its size
// limit, on the wire and after decompression. Its errors are *FaultError and contain nothing of the
// body.
func readBody(resp *http.Response, limit Limit) ([]byte, error) {
	if err := checkType(resp.Header); err != nil {
		if err.Kind == FaultPage {
			err.Text = "want JSON, got " + pageKind(beginning(resp)) + " (" + mediaType(resp.Header) + ")"
		}
		return nil, err
	}
	left := limit.Left.Load()
	if resp.ContentLength > left {
		return nil, tooLarge(limit.Most)
	}
	in := io.Reader(resp.Body)
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header.Values("Content-Encoding"), ",")))
	switch encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		packed := new(atomic.Int64)
		packed.Store(left)
		unpacked, err := gzip.NewReader(&capped{in: in, limit: Limit{packed, limit.Most}})
		if err != nil {
			return nil, damaged(err)
		}
		in = unpacked
	default:
		return nil, &FaultError{Text: fmt.Sprintf("want gzip or no encoding, got Content-Encoding %q", clip(encoding))}
	}
	counted := &capped{in: in, limit: limit}
	body, err := io.ReadAll(counted)
	if err != nil {
		err = damaged(err)
	} else {
		err = checkBody(body)
	}
	if err != nil {
		limit.Left.Add(counted.taken)
		return nil, err
	}
	return body, nil
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
	kind := h.Get("Content-Type")
	if kind == "" {
		return &FaultError{Text: "want JSON, got an answer without a Content-Type"}
	}
	media, params, err := mime.ParseMediaType(kind)
	switch {
	case err != nil:
		return &FaultError{Text: fmt.Sprintf("want JSON, got an unreadable Content-Type %q", clip(kind))}
	case isHTML(media):
		return &FaultError{Kind: FaultPage, Text: fmt.Sprintf("want JSON, got an HTML page (%s)", media)}
	case !isJSON(media):
		return &FaultError{Text: fmt.Sprintf("want JSON, got Content-Type %q", clip(media))}
	}
	switch charset := strings.ToLower(params["charset"]); charset {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		return nil
	default:
		return &FaultError{Text: fmt.Sprintf("want UTF-8, got charset %q", clip(charset))}
	}
}

// checkBody refuses a body labelled as JSON with a 200 that is a page or an error. The document
// itself is checked later.
func checkBody(body []byte) error {
	trimmed := bytes.TrimLeft(body, "\xef\xbb\xbf \t\r\n")
	switch {
	case len(trimmed) == 0:
		return damaged(errors.New("it is empty"))
	case trimmed[0] == '<':
		return &FaultError{Kind: FaultPage, Text: "want JSON, got " + pageKind(trimmed) + " that says it is JSON"}
	case isCutShort(trimmed):
		return damaged(io.ErrUnexpectedEOF)
	case trimmed[0] == '{' && len(body) <= maxEnvelope:
		if said, ok := readEnvelope(trimmed); ok {
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
