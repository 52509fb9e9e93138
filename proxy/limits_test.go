package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/proxy/listen/listentest"
	"vitrine/upstream/shape"
)

func TestConnectionsBeyondTheLimitAreToldSoInJSON(t *testing.T) {
	r := newRig(t, Options{Limits: Limits{MaxConnections: 2}})
	held := []net.Conn{r.dial(t), r.dial(t)}
	for _, c := range held { // an answer shows that the connection is being served
		testkit.Write(t, c, "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n")
		if got := readReply(t, bufio.NewReader(c), "GET"); got.StatusCode != http.StatusOK {
			t.Fatalf("status %d within the limit", got.StatusCode)
		}
	}
	for range 3 {
		got := r.get(t, "/gvapp/")
		if got.StatusCode != http.StatusServiceUnavailable || string(got.body) != `{"detail":"Too many connections."}` ||
			got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Retry-After") == "" ||
			got.Header.Get("Cache-Control") != "no-store" || !got.Close || got.Header.Get("X-Request-Id") == "" {
			t.Errorf("%d %v %s", got.StatusCode, got.Header, got.body)
		}
	}
	if n := strings.Count(r.log.String(), "too many connections: some are refused"); n != 1 {
		t.Errorf("the log was told %d times", n)
	}
	_ = held[0].Close()
	deadline := time.Now().Add(10 * time.Second)
	for r.get(t, "/gvapp/").StatusCode != http.StatusOK { // the server reads the end of a connection in its own time
		if time.Now().After(deadline) {
			t.Fatal("a closed connection makes no room")
		}
	}
}

// TestSilentConnectionsOverTLSBeyondTheLimitHoldNobodyUp has clients that never begin their
// handshake, each of which would take the accept loop's time.
func TestSilentConnectionsOverTLSBeyondTheLimitHoldNobodyUp(t *testing.T) {
	const silent = 40
	r := newRig(t, Options{Limits: Limits{MaxConnections: 1}})
	server, _ := listentest.TLS(t)
	secure, err := tls.Listen("tcp", "127.0.0.1:0", server)
	testkit.Must(t, err)
	go func() { _ = r.connections.Serve(secure) }()
	held := r.dial(t)
	testkit.Write(t, held, "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n")
	readReply(t, bufio.NewReader(held), "GET")
	conns := make([]net.Conn, silent)
	for i := range conns {
		conns[i] = testkit.Dial(t, "tcp", secure.Addr().String())
	}
	began := time.Now()
	for _, c := range conns {
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Fatalf("%d bytes, %v, want it to be closed", n, err)
		}
	}
	if took := time.Since(began); took > silent*refusalTime/2 {
		t.Errorf("%d silent connections took %v", silent, took)
	}
}

// clientPatience is how long a server of a test waits for what does not come. A busy machine has
// sent a request by then.
const clientPatience = 500 * time.Millisecond

func TestSlowClientsAreAnswered408AndIdleOnesAreClosed(t *testing.T) {
	r := newRig(t, Options{Limits: Limits{ReadTimeout: clientPatience, IdleTimeout: clientPatience}})
	const whole, late = "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusRequestTimeout
	for name, tc := range map[string]struct {
		sent    string
		answers []int // and then it is closed
	}{
		"half a request line":   {"GET /gvapp/ HT", []int{late}},
		"a header without end":  {"GET /gvapp/ HTTP/1.1\r\nHost: x\r\n", []int{late}},
		"a body without end":    {"GET /gvapp/ HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\na", []int{late}},
		"a chunk without end":   {"GET /gvapp/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\na", []int{late}},
		"one whole and one not": {whole + "GET /gvapp/ HT", []int{http.StatusOK, late}},
		"nothing":               {"", nil}, // which is idle from the start
		"idle":                  {whole, []int{http.StatusOK}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := r.dial(t)
			testkit.Write(t, conn, tc.sent)
			from := bufio.NewReader(conn)
			for _, status := range tc.answers {
				got := readReply(t, from, "GET")
				if got.StatusCode != status || status == late && (string(got.body) != `{"detail":"Request not received in time."}` || !got.Close) {
					t.Errorf("%d %v %s", got.StatusCode, got.Header, got.body)
				}
			}
			if rest, err := io.ReadAll(from); err != nil || len(rest) != 0 {
				t.Errorf("the connection ends with %q, %v", rest, err)
			}
		})
	}
	t.Run("drop by drop", func(t *testing.T) {
		t.Parallel()
		conn := r.dial(t)
		drops := time.NewTicker(clientPatience / 10)
		defer drops.Stop()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			if got := readReply(t, bufio.NewReader(conn), "GET"); got.StatusCode != http.StatusRequestTimeout {
				t.Errorf("%d", got.StatusCode)
			}
		}()
		for {
			select {
			case <-closed:
				return
			case <-drops.C:
				_, _ = io.WriteString(conn, "G") // the server may have given up already
			}
		}
	})
}

func TestUnixSocketsAndTLSAreServedAsAnyOther(t *testing.T) {
	r := newRig(t, Options{HSTS: 365 * 24 * time.Hour})
	path := filepath.Join(testkit.SocketDir(t), "s")
	socket, err := net.Listen("unix", path)
	testkit.Must(t, err)
	server, clients := listentest.TLS(t)
	secure, err := tls.Listen("tcp", "127.0.0.1:0", server)
	testkit.Must(t, err)
	served := make(chan error, 2)
	for _, ln := range []net.Listener{socket, secure} {
		go func() { served <- r.connections.Serve(ln) }()
	}
	defer func() {
		testkit.Check(t, errors.Join(r.connections.Shutdown(context.Background()), testkit.Receive(t, served), testkit.Receive(t, served)))
	}()

	for _, tc := range []struct {
		name string
		dial func() (net.Conn, error)
		hsts string
	}{
		{"plain", func() (net.Conn, error) { return net.Dial("tcp", r.addr) }, ""},
		{"unix", func() (net.Conn, error) { return net.Dial("unix", path) }, ""},
		{"tls", func() (net.Conn, error) { return tls.Dial("tcp", secure.Addr().String(), clients) }, "max-age=31536000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn, err := tc.dial()
			testkit.Must(t, err)
			defer conn.Close()
			fmt.Fprint(conn, "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n")
			got := readReply(t, bufio.NewReader(conn), "GET")
			if got.StatusCode != http.StatusOK || got.Header.Get("Strict-Transport-Security") != tc.hsts {
				t.Errorf("%d %v", got.StatusCode, got.Header)
			}
		})
	}
}

// TestLargeRequestsWaitForAPlace has large headers wait while others are read, and neither what is
// small, nor what waits for a client or a document.
func TestLargeRequestsWaitForAPlace(t *testing.T) {
	r := newRig(t, Options{})
	n := 1
	for r.connections.large.Take(); r.connections.large.TryTake(); {
		n++
	}
	accept := "Accept: */*" + strings.Repeat(", a/b", largeRequest/4)
	large := "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n" + accept + "\r\n\r\n"
	c := r.dial(t)
	testkit.Write(t, c, large)
	answered := make(chan int)
	go func() {
		defer close(answered) // also if there is no answer
		answered <- readReply(t, bufio.NewReader(c), "GET").StatusCode
	}()
	for range 100 {
		if got := r.get(t, "/gvapp/"); got.StatusCode != http.StatusOK {
			t.Fatalf("status %d of a small request", got.StatusCode)
		}
	}
	select {
	case <-answered:
		t.Error("answered without a place")
	default:
	}
	for range n {
		r.connections.large.Give()
	}
	if status := testkit.Receive(t, answered); status != http.StatusOK {
		t.Errorf("status %d", status)
	}

	catalogue := r.sources[shape.Catalogue]
	catalogue.mu.Lock() // whoever wants that document waits
	for _, unfinished := range []string{
		large, strings.TrimSuffix(large, "\r\n"), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n" + accept,
	} {
		for range n + 1 {
			testkit.Write(t, r.dial(t), unfinished)
		}
	}
	for range 10 {
		if got := r.get(t, "/cms/rules/", accept); got.StatusCode != http.StatusOK {
			t.Errorf("status %d beside those that wait", got.StatusCode)
		}
	}
	catalogue.mu.Unlock()
}

// blocked is an output whose writes wait for its end.
type blocked struct{ writing, end chan struct{} }

func (b *blocked) Write(p []byte) (int, error) {
	b.writing <- struct{}{}
	<-b.end
	return len(p), nil
}

// TestALogThatWaitsKeepsNoPlace has nobody read what is logged of a large request.
func TestALogThatWaitsKeepsNoPlace(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	large := " HTTP/1.1\r\nHost: x\r\nAccept: */*" + strings.Repeat(", a/b", largeRequest/4) + "\r\n"
	for _, c := range []struct {
		name, request string
		options       func(*slog.Logger) Options
	}{
		{"an error", "GET /none" + large + "\r\n", func(l *slog.Logger) Options { return Options{Logger: l} }},
		{"a request that cannot be read", "GET /" + large + "Content-Length: x\r\n\r\n", func(l *slog.Logger) Options { return Options{Logger: l} }},
		{"the access log", "GET /gvapp" + large + "\r\n", func(l *slog.Logger) Options { return Options{AccessLog: l} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := &blocked{make(chan struct{}, 10), make(chan struct{})}
			r := newRig(t, c.options(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))))
			defer close(out.end)
			conn := r.dial(t)
			testkit.Write(t, conn, c.request)
			select {
			case <-out.writing:
			case <-time.After(10 * time.Second):
				t.Fatal("nothing is logged")
			}
			if !r.connections.large.TryTake() {
				t.Error("the only place is taken")
			}
		})
	}
}

func TestWhatIsNotHTTPTakesLittleMemory(t *testing.T) {
	r := newRig(t, Options{})
	const times = 50
	if each := testkit.Allocated(func() {
		for range times {
			r.send(t, "\x16 \x03\x01\x02"+strings.Repeat("\x01\xff", 5000))
		}
	}) / times; each > 100_000 {
		t.Errorf("%d bytes for each request, in quotes that nobody reads", each)
	}
}
