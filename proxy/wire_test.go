package proxy

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/proxy/listen"
	"vitrine/upstream/shape"
)

// serveOnSocket has a rig's server answer on a socket as the command opens it, with TLS if there is
// a configuration of it.
func serveOnSocket(t *testing.T, r *rig, config *tls.Config) {
	t.Helper()
	opened, err := listen.Open(t.Context(), "127.0.0.1:0", slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	socket := listen.New(opened, config)
	served := make(chan error, 1)
	go func() { served <- r.connections.Serve(socket) }()
	r.addr = socket.Addr().String()
	t.Cleanup(func() {
		testkit.Check(t, socket.Close())
		testkit.Check(t, testkit.Receive(t, served))
	})
}

// bannersOf is the sample's banners, repeated to about size bytes.
func bannersOf(t testing.TB, size int) []byte {
	t.Helper()
	raw, err := os.ReadFile("../upstream/sample/banners.json")
	testkit.Must(t, err)
	d, err := shape.Normalize(shape.Banners, raw)
	testkit.Must(t, err)
	banners, body := d.Banners(), d.Body
	for i := 0; len(body) < size; i++ {
		_, rest, _ := strings.Cut(string(banners[i%len(banners)].JSON), `"title_en":"`)
		body = fmt.Appendf(body[:len(body)-1:len(body)-1], `,{"id":%d,"title_en":"%x %s]`, i+1000, i*2654435761, rest)
	}
	return body
}

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
