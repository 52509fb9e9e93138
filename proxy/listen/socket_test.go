package listen

import (
	"bufio"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"crypto/tls"

	"github.com/valyala/fasthttp"

	"vitrine/cmd/testkit"
	"vitrine/proxy/listen/listentest"
)

// A service answers each request with its name, as proxy does it.
type service struct {
	*Listener
	http  *fasthttp.Server
	ended chan error
}

func serve(l *Listener, name string) *service {
	v := &service{Listener: l, ended: make(chan error, 1)}
	v.http = &fasthttp.Server{
		Handler:     func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString(name) },
		ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		ReduceMemoryUsage: true, // it waits for a byte
	}
	go func() { v.ended <- v.http.Serve(v.Listener) }()
	return v
}

// end waits until no connection is left.
func (v *service) end(t *testing.T) {
	t.Helper()
	if err := testkit.Receive(t, v.ended); err != nil {
		t.Log(err) // the listener is closed
	}
	for v.http.GetOpenConnectionsCount() > 0 && t.Context().Err() == nil {
		runtime.Gosched()
	}
}

// client is one connection, on which it asks.
type client struct {
	net.Conn
	r *bufio.Reader
}

func (c *client) ask(request string) error {
	_, err := io.WriteString(c, request)
	return err
}

func (c *client) answer() (string, error) {
	var response fasthttp.Response
	if err := response.Read(c.r); err != nil {
		return "", err
	}
	return string(response.Body()), nil
}

const aRequest = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

func opened(t testing.TB, config *tls.Config) *Listener {
	t.Helper()
	s, err := Open(t.Context(), "127.0.0.1:0", quiet)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return New(s, config)
}

// A connection that was idle for a while is closed, also if that was before its first request or
// began after the draining; one that is in use gets the time that it needs.
func TestDrainingClosesIdleConnectionsAndNoOther(t *testing.T) {
	v := serve(opened(t, nil), "v")
	conns := make([]*client, 3)
	for i := range conns {
		conn := testkit.Dial(t, "tcp", v.Addr().String())
		conns[i] = &client{conn, bufio.NewReader(conn)}
		testkit.Must(t, conns[i].ask(aRequest))
		_, err := conns[i].answer()
		testkit.Must(t, err)
	}
	busy, later := conns[1], conns[2]
	testkit.Must(t, errors.Join(busy.ask(aRequest[:9]), later.ask(aRequest[:9])))
	<-time.After(10 * time.Millisecond) // so that both are read
	testkit.Must(t, v.Drain())
	testkit.Must(t, later.ask(aRequest[9:]))
	if got, err := later.answer(); got != "v" || err != nil {
		t.Errorf("a request under way: %q, %v", got, err)
	}
	for i, c := range []*client{conns[0], later} {
		if _, err := c.answer(); !errors.Is(err, io.EOF) {
			t.Errorf("idle connection %d: %v, want EOF", i, err)
		}
	}
	testkit.Check(t, busy.ask(aRequest[9:]))
	if got, err := busy.answer(); got != "v" || err != nil {
		t.Errorf("the request under way: %q, %v", got, err)
	}
	v.end(t)
}

// A connection that stays busy longer than draining may take is closed, whatever it does.
func TestConnectionsThatAreBusyForTooLongAreClosed(t *testing.T) {
	server, clients := listentest.TLS(t)
	for name, config := range map[string]*tls.Config{"plain": nil, "TLS": server} {
		t.Run(name, func(t *testing.T) {
			v := serve(opened(t, config), "v")
			conn := testkit.Dial(t, "tcp", v.Addr().String())
			if config != nil {
				conn = tls.Client(conn, clients)
			}
			c := &client{conn, bufio.NewReader(conn)}
			testkit.Must(t, c.ask(aRequest+aRequest[:9]))
			if got, err := c.answer(); got != "v" {
				t.Fatal(got, err)
			}
			testkit.Must(t, v.Drain())
			v.CloseConns()
			_ = c.ask(aRequest[9:]) // it may be closed already
			if got, err := c.answer(); err == nil {
				t.Errorf("answered by %q", got)
			}
			v.end(t)
		})
	}
}
