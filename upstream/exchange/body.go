package exchange

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// Limit is how many bytes a response may have: what the other responses of the same document have
// left of their common maximum.
type Limit struct{ Left, Most int64 }

// readBody reads a response to its end, decompressed, if it is JSON in UTF-8 and within its size
// limit, on the wire and after decompression. Its errors are *FaultError and contain nothing of the
// body.
func readBody(resp *http.Response, limit Limit, types []string) ([]byte, error) {
	if err := checkType(resp.Header, types); err != nil {
		if err.Kind == FaultPage {
			// Look at the page's beginning for its kind; failing to is not an error.
			page, _ := io.ReadAll(io.LimitReader(resp.Body, maxEnvelope))
			err.Text = "want JSON, got " + pageKind(page) + " (" + mediaType(resp.Header) + ")"
		}
		return nil, err
	}
	if resp.ContentLength > limit.Left {
		return nil, TooLarge(limit.Most)
	}
	var in io.Reader = &capped{in: resp.Body, left: limit.Left, limit: limit.Most}
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header.Values("Content-Encoding"), ",")))
	switch encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, damaged(err)
		}
		in = &capped{in: unpacked, left: limit.Left, limit: limit.Most}
	default:
		return nil, &FaultError{Text: fmt.Sprintf("want gzip or no encoding, got Content-Encoding %q", clip(encoding))}
	}
	body, err := readAll(in, resp.ContentLength)
	if err != nil {
		return nil, damaged(err)
	}
	return body, checkBody(body)
}

// readAll reads in to its end. An announced length avoids growing the buffer; for a compressed body
// it is a lower bound.
func readAll(in io.Reader, announced int64) ([]byte, error) {
	if announced < 0 {
		return io.ReadAll(in)
	}
	var into bytes.Buffer
	into.Grow(int(announced) + bytes.MinRead)
	_, err := into.ReadFrom(in)
	return into.Bytes(), err
}

// damaged turns an error of reading into one of the body: too large, cut off, or damaged.
func damaged(err error) error {
	if known, ok := errors.AsType[*FaultError](err); ok {
		return known
	}
	return &FaultError{Kind: FaultDamaged, Text: "the body is cut short or damaged", Err: err}
}

// TooLarge is the error of a body, or of several together, beyond the limit.
func TooLarge(limit int64) error {
	return &FaultError{Text: fmt.Sprintf("the body is larger than %d bytes", limit)}
}

// capped fails a read beyond its limit, where io.LimitReader would just end.
type capped struct {
	in          io.Reader
	left, limit int64
}

func (c *capped) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.left -= int64(n)
	if c.left < 0 {
		return 0, TooLarge(c.limit)
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
func checkType(h http.Header, types []string) *FaultError {
	kind := h.Get("Content-Type")
	if kind == "" {
		return &FaultError{Text: "want JSON, got an answer without a Content-Type"}
	}
	media, params, err := mime.ParseMediaType(kind)
	switch {
	case err != nil:
		return &FaultError{Text: fmt.Sprintf("want JSON, got an unreadable Content-Type %q", clip(kind))}
	case slices.Contains(types, media):
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

var errEmpty = errors.New("it is empty")

// checkBody refuses a body labelled as JSON with a 200 that is a page or an error. The document
// itself is checked later.
func checkBody(body []byte) error {
	trimmed := bytes.TrimLeft(body, "\xef\xbb\xbf \t\r\n")
	switch {
	case len(trimmed) == 0:
		return damaged(errEmpty)
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
