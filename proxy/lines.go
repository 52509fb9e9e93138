package proxy

import (
	"bytes"
	"fmt"

	"github.com/valyala/fasthttp"
)

// Values that never change.
const (
	allowed     = "GET, HEAD, OPTIONS"
	contentJSON = "application/json"
	// If a browser ever shows an answer as a page, that page can do nothing and cannot be framed.
	securityPolicy = "default-src 'none'; frame-ancestors 'none'"
)

// lines are header lines that never change: as they are written before a document, and as fasthttp
// takes them for any other answer.
type lines struct {
	text   []byte
	fields [][2][]byte // name and value
}

func newLines(format string, args ...any) lines {
	l := lines{text: fmt.Appendf(nil, format, args...)}
	for line := range bytes.Lines(l.text) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		l.fields = append(l.fields, [2][]byte{name, value})
	}
	return l
}

func (l *lines) set(h *fasthttp.ResponseHeader) {
	for _, f := range l.fields {
		h.SetBytesKV(f[0], f[1])
	}
}
