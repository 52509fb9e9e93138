package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"vitrine/cache"
	"vitrine/cmd/testkit"
	"vitrine/proxy/listen"
	"vitrine/proxy/listen/listentest"
	"vitrine/proxy/negotiate"
	"vitrine/proxy/processors"
	"vitrine/proxy/represent"
	"vitrine/upstream/shape"
)

// serveOnSocket has a rig's server answer on a socket as the command opens it, with TLS if there is
// a configuration of it.
func serveOnSocket(t *testing.T, r *rig, config *tls.Config) {
	t.Helper()
	socket, err := listen.Open(t.Context(), "127.0.0.1:0", slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(socket.Listen(config)) }()
	r.addr = socket.Addr().String()
	t.Cleanup(func() {
		testkit.Check(t, socket.Close())
		testkit.Check(t, testkit.Receive(t, served))
	})
}

// systemCalls is how often this process has called read and write, and their kin, so far.
func systemCalls(t *testing.T) (reads, writes int) {
	t.Helper()
	io, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skipf("system calls are counted in /proc/self/io: run it on Linux: %v", err)
	}
	for name, n := range map[string]*int{"syscr: ": &reads, "syscw: ": &writes} {
		_, after, _ := strings.Cut(string(io), name)
		_, err := fmt.Sscan(after, n)
		testkit.Must(t, err)
	}
	return reads, writes
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

func TestOneSystemCallWritesAnAnswerOverTLS(t *testing.T) {
	r := newRig(t, Options{})
	server, clients := listentest.TLS(t)
	serveOnSocket(t, r, server)
	testSystemCalls(t, r, tls.Client(r.dial(t), clients), []int{3_000, 40_000}, false)
}

func testSystemCalls(t *testing.T, r *rig, conn net.Conn, sizes []int, countReads bool) {
	defer conn.Close()
	from := bufio.NewReaderSize(conn, 1<<20)
	for _, size := range sizes {
		r.sources[shape.Banners].hold(t, bannersOf(t, size))
		tag := ""
		for _, fields := range []string{"", "Accept-Encoding: br\r\n", "Accept: application/json; indent=2\r\n", "condition"} {
			const times = 50
			ask := func() {
				sent := fields
				if fields == "condition" {
					sent = "If-None-Match: " + tag + "\r\n"
				}
				testkit.Write(t, conn, "GET /gvapp/singlebanner HTTP/1.1\r\nHost: x\r\n"+sent+"\r\n")
				got := readReply(t, from, http.MethodGet)
				if fields == "" {
					tag = got.Header.Get("ETag")
				}
				if want := fields == "condition"; (got.StatusCode == http.StatusNotModified) != want {
					t.Fatalf("%d %v", got.StatusCode, got.Header)
				}
			}
			ask() // what is prepared is prepared
			reads, writes := math.MaxInt, math.MaxInt
			for range 5 { // at a quiet moment: the runtime has calls of its own, to wake its poller
				readsBefore, writesBefore := systemCalls(t)
				for range times {
					ask()
				}
				readsAfter, writesAfter := systemCalls(t)
				reads, writes = min(reads, readsAfter-readsBefore), min(writes, writesAfter-writesBefore)
			}
			if writes > 2*times+times/10 { // one of the client's for each
				t.Errorf("%d bytes, %q: %d answers took %d writes", size, fields, times, writes-times)
			}
			// Each side may find nothing, wait, and then read. The client reads a large answer in
			// pieces as they come.
			if countReads && size < 10_000 && reads > 4*times+times/10 {
				t.Errorf("%d bytes, %q: both sides took %d reads for %d requests", size, fields, reads, times)
			}
		}
	}
}

func TestAnAnswerThatWasWrittenItemByItemKeepsNoDocument(t *testing.T) {
	var list strings.Builder
	for i := range 2 * maxPieces {
		fmt.Fprintf(&list, `,{"id":%d}`, i)
	}
	normal, err := shape.Normalize(shape.Banners, []byte("["+list.String()[1:]+"]"))
	testkit.Must(t, err)
	document, err := represent.Prepare(shape.Banners, new(processors.Half))(&cache.Document{Body: normal.Body, ETag: cache.ETag(normal.Body)})
	testkit.Must(t, err)
	// While as many forms are being written as there is room for, an answer is made of items.
	var r *represent.Representation
	for _, field := range shape.BannerFields() {
		var lease represent.Lease
		r, lease = document.Get(represent.Key{Ordering: negotiate.ParseOrdering([]byte("-id," + field))}, negotiate.Brotli)
		t.Cleanup(lease.Release)
	}
	if r.Body != nil {
		t.Fatal("there was room for all")
	}
	o := newOutgoing()
	o.content(r, represent.Lease{})
	testkit.Must(t, o.writeTo(new(wire), []byte("HTTP/1.1 200 OK\r\n\r\n")))
	o.release()
	for i, p := range o.pieces {
		if p != nil {
			t.Fatalf("piece %d is kept: %.20s", i, p)
		}
	}
}

// TestAPreparedAnswerFollowsItsHeaderOrNothing has fasthttp's writer flush the header in all the
// ways that a later release might.
func TestAPreparedAnswerFollowsItsHeaderOrNothing(t *testing.T) {
	r := newRig(t, Options{})
	var response fasthttp.Response
	response.SkipBody = true
	response.Header.SetContentLength(4)
	var header strings.Builder
	flush := bufio.NewWriter(&header)
	testkit.Must(t, errors.Join(response.Write(flush), flush.Flush()))
	whole := header.String()
	for name, tc := range map[string]struct {
		flushes []string
		want    bool
	}{
		"as it is":                    {[]string{whole}, true},
		"in two":                      {[]string{whole[:20], whole[20:]}, false},
		"without its end":             {[]string{whole[:len(whole)-2]}, false},
		"with a body":                 {[]string{whole + "body"}, false},
		"with the next one":           {[]string{whole + whole}, false},
		"of another status":           {[]string{strings.Replace(whole, "200 OK", "500 Internal Server Error", 1)}, false},
		"larger than the room for it": {[]string{whole[:len(whole)-2] + "X: " + strings.Repeat("x", ownRoom) + "\r\n\r\n"}, false},
	} {
		w := &wire{end: io.EOF}
		r.server.open.Add(1)
		c := clientIn(r.server.newClient(w))
		out := newOutgoing()
		out.status = fasthttp.StatusOK
		out.add([]byte("ETag: x\r\n\r\n"))
		out.content(&represent.Representation{Body: []byte("body")}, represent.Lease{})
		c.prepare(out)
		var err error
		for _, flush := range tc.flushes {
			_, e := c.Write([]byte(flush))
			err = errors.Join(err, e)
			if e != nil {
				break // as fasthttp does
			}
		}
		got := w.answered.String()
		if want := whole[:len(whole)-2] + "ETag: x\r\n\r\nbody"; tc.want && (got != want || err != nil) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if !tc.want && (got != "" || !errors.Is(err, errFlush) || !w.closed) {
			t.Errorf("%s: %q, %v, closed %t", name, got, err, w.closed)
		}
		_ = c.Close()
	}
	if !strings.Contains(r.log.String(), "connection closed before an answer") {
		t.Error("nothing is logged")
	}
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

// WriteBuffers is what listen's connections have.
func (w *wire) WriteBuffers(pieces [][]byte) error {
	for _, p := range pieces {
		w.answered.Write(p)
	}
	return nil
}
