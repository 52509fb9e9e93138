package exchange

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
)

// TestOnlyABodyThatIsReturnedTakesOfTheLimit has each way to refuse a body give back what it took,
// for the next attempt and for the other responses of the document.
func TestOnlyABodyThatIsReturnedTakesOfTheLimit(t *testing.T) {
	const most = 10_000
	pack := func(s string, level int) string {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, level)
		_, _ = io.WriteString(w, s)
		_ = w.Close()
		return b.String()
	}
	document := "[" + strings.Repeat(" ", 5000) + "]"
	packed := pack(document, gzip.BestCompression)
	for _, c := range []struct {
		name, encoding, body, kind string
		announced                  int64
		want                       int // bytes; 0 for none
	}{
		{name: "a document", body: document, announced: -1, want: len(document)},
		{name: "one that is announced", body: document, announced: int64(len(document)), want: len(document)},
		{name: "one that is packed", encoding: "gzip", body: packed, announced: int64(len(packed)), want: len(document)},
		{name: "cut short", body: document[:4000], announced: -1},
		{name: "cut short, packed", encoding: "gzip", body: packed[:len(packed)-9], announced: -1},
		{name: "a checksum that is wrong", encoding: "gzip", body: packed[:len(packed)-1], announced: -1},
		{name: "not packed", encoding: "gzip", body: document, announced: -1},
		{name: "another coding", encoding: "br", body: document, announced: -1},
		{name: "too large", body: strings.Repeat(" ", 3*most), announced: -1},
		{name: "announced to be too large", body: document, announced: most + 1},
		{name: "too large once unpacked", encoding: "gzip", body: pack(strings.Repeat(" ", 100*most), 9), announced: -1},
		{name: "too large while it is packed", encoding: "gzip", body: strings.Repeat(pack("", 9), most), announced: -1},
		{name: "of another type", body: document, kind: "text/plain", announced: -1},
		{name: "a page", body: "<html>" + document, announced: -1},
		{name: "an error", body: `{"error":{"status":500,"name":"InternalServerError","message":"x"}}`, announced: -1},
		{name: "nothing", announced: 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := &counted{Reader: iotest.HalfReader(strings.NewReader(c.body))}
			resp := &http.Response{Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: c.announced, Body: io.NopCloser(in)}
			if c.kind != "" {
				resp.Header.Set("Content-Type", c.kind)
			}
			if c.encoding != "" {
				resp.Header.Set("Content-Encoding", c.encoding)
			}
			left := new(atomic.Int64)
			left.Store(most)
			body, err := readBody(resp, Limit{Left: left, Most: most})
			if len(body) != c.want || (err == nil) != (c.want > 0) {
				t.Errorf("%d bytes, %v", len(body), err)
			}
			if n := most - left.Load(); n != int64(len(body)) {
				t.Errorf("%d bytes taken for %d", n, len(body))
			}
			if in.n > most+(64<<10) {
				t.Errorf("%d bytes read, of at most %d", in.n, most)
			}
		})
	}
}

// counted counts what is read.
type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}
