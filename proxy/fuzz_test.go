package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"vitrine/upstream/shape"
)

// wire is a connection on which a client has sent everything already, a piece for each read.
type wire struct {
	sent     [][]byte
	end      error // after them
	answered bytes.Buffer
	closed   bool
}

func (w *wire) Read(p []byte) (int, error) {
	for len(w.sent) > 0 && len(w.sent[0]) == 0 {
		w.sent = w.sent[1:]
	}
	if len(w.sent) == 0 {
		return 0, w.end
	}
	n := copy(p, w.sent[0])
	w.sent[0] = w.sent[0][n:]
	return n, nil
}

func (w *wire) Write(p []byte) (int, error)      { return w.answered.Write(p) }
func (w *wire) Close() error                     { w.closed = true; return nil }
func (w *wire) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (w *wire) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// WriteBuffers is what listen's connections have.
func (w *wire) WriteBuffers(pieces [][]byte) error {
	for _, p := range pieces {
		w.answered.Write(p)
	}
	return nil
}

func FuzzConnection(f *testing.F) {
	for _, s := range []string{
		"GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /gvapp/singlebanner?ordering=-id&format=api HTTP/1.1\r\nHost: x\r\nAccept-Encoding: br;q=0.5, *\r\nIf-None-Match: W/\"x\", \"y\"\r\nX-Forwarded-For: 1.2.3.4, ::1\r\n\r\n",
		"HEAD /cms/rules HTTP/1.0\r\n\r\nOPTIONS /gvapp/ HTTP/1.1\r\nHost: x\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n\r\n",
		"POST http://x/gvapp/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\nBREW / HTTP/1.1\r\n\r\n",
		"GET /gvapp/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nCookie: a=b\r\n\r\nabc",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	r := newRig(f, Options{
		CORSOrigins: []string{"https://a.example"}, TrustedProxies: []string{"127.0.0.1", "::1"},
		AccessLog:      slog.New(slog.NewJSONHandler(io.Discard, nil)), //nolint:sloglint // so that the lines are made
		MaxTargetBytes: 512, MaxHeaderBytes: 1024, MaxBodyBytes: 512,
	})
	for res, name := range map[shape.Resource]string{shape.Catalogue: "gvapp-get", shape.Rules: "rules-get", shape.Banners: "singlebanner-get"} {
		r.holdRecorded(f, res, name)
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		w := &wire{sent: [][]byte{sent}, end: io.EOF}
		r.server.open.Add(1)
		c := r.server.newClient(w)
		_ = r.server.app.Server().ServeConn(c) // its error is about what was sent
		_ = c.Close()
		from := bufio.NewReader(&w.answered)
		// Of several answers the first is looked at: where it ends depends on how its request is
		// read.
		got, err := http.ReadResponse(from, &http.Request{Method: http.MethodHead})
		for err == nil && got.StatusCode == http.StatusContinue {
			got, err = http.ReadResponse(from, &http.Request{Method: http.MethodHead})
		}
		if errors.Is(err, io.ErrUnexpectedEOF) && w.answered.Len() == 0 {
			return // nothing was asked
		}
		if err != nil {
			t.Fatalf("%q is answered by no HTTP: %v", sent, err)
		}
		_ = got.Body.Close()
		switch got.StatusCode {
		case 200, 204, 301, 304:
		case 400, 404, 405, 406, 408, 412, 413, 414, 431, 505:
			if got.Header.Get("Content-Type") != "application/json" {
				t.Fatalf("%q: %d in %s", sent, got.StatusCode, got.Header.Get("Content-Type"))
			}
		default:
			t.Fatalf("%q: %d", sent, got.StatusCode)
		}
		if got.Header.Get("X-Content-Type-Options") != "nosniff" || (got.Header.Get("X-Request-Id") != "") != (got.Header.Get("Cache-Control") == "no-store") || got.Header.Values("Set-Cookie") != nil {
			t.Fatalf("%q: %v", sent, got.Header)
		}
	})
}
