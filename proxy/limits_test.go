package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

func TestConnectionsBeyondTheLimitAreToldSoInJSON(t *testing.T) {
	r := newRig(t, Options{MaxConnections: 2})
	held := []net.Conn{r.dial(t), r.dial(t)}
	for _, c := range held { // an answer shows that the connection is being served
		if _, err := io.WriteString(c, "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
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

func TestAConnectionRefusedAfterShutdownHasNobodyToWaitFor(t *testing.T) {
	r := newRig(t, Options{MaxConnections: 1})
	r.get(t, "/gvapp/") // it serves
	if err := r.server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	client, refused := net.Pipe()
	defer client.Close()
	r.server.refuse(refused)
	if answer, err := io.ReadAll(client); len(answer) > 0 || err != nil {
		t.Errorf("answered behind the back of Shutdown: %q (%v)", answer, err)
	}
}

func TestAClientsRateIsBoundedInTheWordsOfDjangoRESTFramework(t *testing.T) {
	r := newRig(t, Options{RequestsPerSecond: 0.01, Burst: 2, TrustedProxies: []string{"127.0.0.1"}})
	from := func(client string) reply { return r.get(t, "/gvapp/", "X-Forwarded-For: "+client) }
	for range 2 {
		if got := from("192.0.2.1"); got.StatusCode != http.StatusOK {
			t.Fatalf("%d within the burst", got.StatusCode)
		}
	}
	got := from("192.0.2.1")
	if got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Retry-After") != "100" || got.Header.Get("Cache-Control") != "no-store" ||
		string(got.body) != `{"detail":"Request was throttled. Expected available in 100 seconds."}` {
		t.Errorf("%d %v %s", got.StatusCode, got.Header, got.body)
	}
	if got := from("192.0.2.2"); got.StatusCode != http.StatusOK {
		t.Errorf("%d for another client", got.StatusCode)
	}
	if got := r.send(t, "BREW /nope HTTP/1.1\nHost: x\nX-Forwarded-For: 192.0.2.1"); got.StatusCode != http.StatusTooManyRequests {
		t.Errorf("%d for another path by a method nobody knows", got.StatusCode)
	}
}

func TestAThrottleRefillsAndHoldsABoundedNumberOfClients(t *testing.T) {
	th, err := newThrottle(10, 0)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	one := netip.MustParseAddr("2001:db8::1")
	for i := range 10 {
		if err := th.admit(one, now); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	same := netip.MustParseAddr("2001:db8::ffff:1") // of the same /64
	if err := th.admit(same, now); !errors.Is(err, errThrottled) || retrySeconds(err) != 1 {
		t.Errorf("beyond the burst: %v", err)
	}
	if err := th.admit(same, now.Add(100*time.Millisecond)); err != nil {
		t.Errorf("a tenth of a second later: %v", err)
	}
	if err := th.admit(netip.MustParseAddr("2001:db8:0:1::1"), now); err != nil {
		t.Errorf("the next /64: %v", err)
	}
	for i := range 2 * maxClients {
		if err := th.admit(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now); err != nil {
			t.Fatal(err)
		}
	}
	if n := th.clients.Len(); n != maxClients {
		t.Errorf("%d clients are known", n)
	}
	if n := testing.AllocsPerRun(1000, func() { _ = th.admit(netip.AddrFrom4([4]byte{10, 0, 255, 255}), now.Add(time.Hour)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAClientIsWhomATrustedProxyNamesAndNobodyElse(t *testing.T) {
	for _, tc := range []struct {
		name    string
		trusted []string
		header  string
		peer    string // empty for a Unix socket
		lines   []string
		want    string
	}{
		{"nobody is believed", nil, "", "192.0.2.1", []string{"198.51.100.1"}, "192.0.2.1"},
		{"a stranger is not", []string{"10.0.0.0/8"}, "", "192.0.2.1", []string{"198.51.100.1"}, "192.0.2.1"},
		{"a proxy is", []string{"10.0.0.0/8"}, "", "10.1.2.3", []string{"198.51.100.1"}, "198.51.100.1"},
		{"by a single address", []string{"10.1.2.3"}, "", "10.1.2.3", []string{"198.51.100.1"}, "198.51.100.1"},
		{"what the client wrote itself is not", []string{"10.0.0.0/8"}, "", "10.1.2.3", []string{"1.1.1.1, 198.51.100.1"}, "198.51.100.1"},
		{"several proxies", []string{"10.0.0.0/8"}, "", "10.1.2.3", []string{"1.1.1.1, 198.51.100.1, 10.9.9.9 ,10.8.8.8"}, "198.51.100.1"},
		{"several lines", []string{"10.0.0.0/8"}, "", "10.1.2.3", []string{"1.1.1.1", "198.51.100.1", "10.9.9.9"}, "198.51.100.1"},
		{"only proxies", []string{"10.0.0.0/8"}, "", "10.1.2.3", []string{"10.9.9.9,10.8.8.8"}, "10.9.9.9"},
		{"nonsense stops the walk", []string{"10.0.0.0/8"}, "", "10.1.2.3", []string{"198.51.100.1, unknown, 10.9.9.9"}, "10.9.9.9"},
		{"nothing is said", []string{"10.0.0.0/8"}, "", "10.1.2.3", nil, "10.1.2.3"},
		{"an empty line", []string{"10.0.0.0/8"}, "", "10.1.2.3", []string{""}, "10.1.2.3"},
		{"ports and brackets", []string{"10.0.0.0/8"}, "", "10.1.2.3", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"IPv6", []string{"fd00::/8"}, "", "fd00::1", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		{"IPv6 in brackets", []string{"fd00::/8"}, "", "fd00::1", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"IPv4 in IPv6", []string{"10.0.0.0/8"}, "", "10.1.2.3", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"another field", []string{"10.0.0.0/8"}, "CF-Connecting-IP", "10.1.2.3", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a Unix socket that is trusted", []string{"unix"}, "", "", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a Unix socket that is not", []string{"10.0.0.0/8"}, "", "", []string{"198.51.100.1"}, "invalid IP"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			header := "X-Forwarded-For"
			if tc.header != "" {
				header = tc.header
			}
			p, err := newProxies(header, tc.trusted)
			if err != nil {
				t.Fatal(err)
			}
			c := &conn{}
			if tc.peer != "" {
				c.peer = netip.MustParseAddr(tc.peer)
			}
			c.trusted = p.trust(c.peer)
			var h fasthttp.RequestHeader
			for _, line := range tc.lines {
				h.Add(header, line)
			}
			h.Add("X-Real-IP", "203.0.113.9")
			if got := p.client(c, &h).String(); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
	for _, bad := range []string{"", "10.0.0.0/33", "10.1.0.0/8", "localhost", "fe80::1%eth0"} {
		if _, err := newProxies("X-Forwarded-For", []string{bad}); err == nil {
			t.Errorf("%q is taken for a network", bad)
		}
	}
}

func FuzzParseClient(f *testing.F) {
	for _, seed := range []string{"192.0.2.1", "192.0.2.1:80", "[2001:db8::1]:80", " ::1\t", "unknown", "[", "fe80::1%eth0", "::ffff:1.2.3.4"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, element []byte) {
		addr, ok := parseClient(element)
		if !ok {
			return
		}
		if !addr.IsValid() || addr.Zone() != "" || addr.Is4In6() {
			t.Fatalf("%q is %v", element, addr)
		}
		if again, ok := parseClient([]byte(addr.String())); !ok || again != addr {
			t.Fatalf("%q is %v, which is %v", element, addr, again)
		}
	})
}

func TestSlowClientsAreAnswered408AndIdleOnesAreClosed(t *testing.T) {
	const patience = 500 * time.Millisecond // in which a busy machine has sent a request
	r := newRig(t, Options{ReadTimeout: patience, IdleTimeout: patience})
	for name, sent := range map[string]string{
		"nothing":               "",
		"half a request line":   "GET /gvapp/ HT",
		"a header without end":  "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n",
		"a body without end":    "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\na",
		"a chunk without end":   "GET /gvapp/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\na",
		"one whole and one not": "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\nGET /gvapp/ HT",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := r.dial(t)
			defer conn.Close()
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			from := bufio.NewReader(conn)
			if strings.HasPrefix(name, "one whole") {
				if got := readReply(t, from, "GET"); got.StatusCode != http.StatusOK {
					t.Fatalf("%d", got.StatusCode)
				}
			}
			got := readReply(t, from, "GET")
			if got.StatusCode != http.StatusRequestTimeout || string(got.body) != `{"detail":"Request not received in time."}` || !got.Close {
				t.Errorf("%d %v %s", got.StatusCode, got.Header, got.body)
			}
			if _, err := from.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("left open: %v", err)
			}
		})
	}
	t.Run("drop by drop", func(t *testing.T) {
		t.Parallel()
		conn := r.dial(t)
		defer conn.Close()
		drops := time.NewTicker(patience / 10)
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
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		conn := r.dial(t)
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		from := bufio.NewReader(conn)
		if got := readReply(t, from, "GET"); got.StatusCode != http.StatusOK || got.Close {
			t.Fatalf("%d %v", got.StatusCode, got.Header)
		}
		if rest, err := io.ReadAll(from); err != nil || len(rest) != 0 {
			t.Errorf("an idle connection ends with %q, %v", rest, err)
		}
	})
}

func TestATargetThatFillsTheBufferIs414WhateverCameBefore(t *testing.T) {
	r := newRig(t, Options{MaxTargetBytes: 512, MaxHeaderBytes: 1024})
	long := strings.Repeat("x", 10_000)
	for name, tc := range map[string]struct {
		request string
		status  int
	}{
		"at once":                    {"GET /" + long, 414},
		"with its end":               {"GET /" + long + " HTTP/1.1\r\nHost: x\r\n\r\n", 414},
		"without a word of HTTP":     {long, 414},
		"a field that long":          {"GET / HTTP/1.1\r\nX: " + long + "\r\n\r\n", 431},
		"many fields":                {"GET / HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", 1000) + "\r\n", 431},
		"after another on this line": {"GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\nGET /" + long, 414},
	} {
		t.Run(name, func(t *testing.T) {
			conn := r.dial(t)
			defer conn.Close()
			_, _ = io.WriteString(conn, tc.request) // the server may stop reading before the end
			from := bufio.NewReader(conn)
			if strings.HasPrefix(name, "after") {
				readReply(t, from, "GET")
			}
			if got := readReply(t, from, "GET"); got.StatusCode != tc.status || !strings.HasPrefix(string(got.body), `{"detail":"Request `) {
				t.Errorf("%d %s, want %d", got.StatusCode, got.body, tc.status)
			}
		})
	}
}

func TestUnixSocketsAndTLSAreServedAsAnyOther(t *testing.T) {
	r := newRig(t, Options{HSTS: 365 * 24 * time.Hour})
	path := filepath.Join(t.TempDir(), "s")
	socket, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	lent := httptest.NewUnstartedServer(nil)
	lent.StartTLS()
	defer lent.Close()
	secure, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: lent.TLS.Certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 2)
	for _, ln := range []net.Listener{socket, secure} {
		go func() { served <- r.server.Serve(ln) }()
	}
	defer func() {
		if err := errors.Join(r.server.Shutdown(context.Background()), <-served, <-served); err != nil {
			t.Error(err)
		}
	}()

	for _, tc := range []struct {
		name string
		dial func() (net.Conn, error)
		hsts string
	}{
		{"plain", func() (net.Conn, error) { return net.Dial("tcp", r.addr) }, ""},
		{"unix", func() (net.Conn, error) { return net.Dial("unix", path) }, ""},
		{"tls", func() (net.Conn, error) {
			return tls.Dial("tcp", secure.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		}, "max-age=31536000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn, err := tc.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n")
			got := readReply(t, bufio.NewReader(conn), "GET")
			if got.StatusCode != http.StatusOK || got.Header.Get("Strict-Transport-Security") != tc.hsts {
				t.Errorf("%d %v", got.StatusCode, got.Header)
			}
		})
	}
}
