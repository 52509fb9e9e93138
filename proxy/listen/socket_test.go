package listen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
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

func serve(s *Socket, config *tls.Config, name string) *service {
	v := &service{Listener: s.Listen(config), ended: make(chan error, 1)}
	v.http = &fasthttp.Server{
		Handler:     func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString(name) },
		ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		ConnState: func(c net.Conn, state fasthttp.ConnState) {
			turns := c.(interface {
				Idle()
				Busy()
			})
			switch state {
			case fasthttp.StateIdle:
				turns.Idle()
			case fasthttp.StateActive:
				turns.Busy()
			}
		},
	}
	go func() { v.ended <- v.http.Serve(v.Listener) }()
	return v
}

// end drains it, and waits for its end.
func (v *service) end(t *testing.T) {
	t.Helper()
	testkit.Check(t, v.Drain(t.Context()))
	_ = v.http.Shutdown()
	if err := testkit.Receive(t, v.ended); err != nil {
		t.Log(err) // the listener is closed
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

func opened(t *testing.T, log *slog.Logger) *Socket {
	t.Helper()
	s, err := Open(t.Context(), "127.0.0.1:0", log)
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// Each connection stays open through twenty services, and each of its requests is answered:
// those sent while nothing happens, half a request, two requests in one segment, and a new
// connection.
func TestConnectionsAreHandedOverWithoutALostRequest(t *testing.T) {
	server, clients := listentest.TLS(t)
	for name, config := range map[string]*tls.Config{"plain": nil, "TLS": server} {
		t.Run(name, func(t *testing.T) {
			socket := opened(t, quiet)
			present := serve(socket, config, "0")
			dial := func() (*client, error) {
				conn, err := net.Dial("tcp", socket.Addr().String())
				if err == nil {
					err = conn.SetDeadline(time.Now().Add(testkit.Patience))
				}
				if err == nil && config != nil {
					secure := tls.Client(conn, clients)
					conn, err = secure, secure.Handshake()
				}
				return &client{conn, bufio.NewReader(conn)}, err
			}
			var stop atomic.Bool
			var answered atomic.Int64
			var asking sync.WaitGroup
			t.Cleanup(func() { stop.Store(true); asking.Wait() })
			for i := range 8 {
				asking.Go(func() {
					c, err := dial()
					for n := 0; err == nil && !stop.Load(); n++ {
						want := 1
						switch (n + i) % 4 {
						case 0:
							err = c.ask(aRequest)
						case 1:
							err = errors.Join(c.ask(aRequest[:9]), c.ask(aRequest[9:]))
						case 2:
							err = c.ask(aRequest + aRequest)
							want = 2
						case 3:
							err = errors.Join(c.ask(aRequest+aRequest[:5]), c.ask(aRequest[5:]))
							want = 2
						}
						for range want {
							if _, aerr := c.answer(); aerr != nil {
								err = errors.Join(err, aerr)
							}
						}
						answered.Add(int64(want))
						if err == nil && n%97 == 96 && i%2 == 0 {
							c.Close()
							c, err = dial()
						}
					}
					if err != nil {
						t.Errorf("after %d answers: %v", answered.Load(), err)
						return
					}
					c.Close()
				})
			}
			idle, err := dial()
			testkit.Must(t, err)
			silent, err := dial()
			testkit.Must(t, err)
			first := ""
			for i := range 20 {
				before := answered.Load()
				testkit.Must(t, idle.ask(aRequest))
				name, err := idle.answer()
				testkit.Must(t, err)
				if i == 0 {
					first = name
				}
				next := serve(socket, config, fmt.Sprint(i+1))
				ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
				testkit.Must(t, present.HandOver(ctx))
				cancel()
				testkit.Must(t, present.http.Shutdown())
				testkit.Must(t, testkit.Receive(t, present.ended))
				present = next
				testkit.Eventually(t, "requests are answered", func() bool { return answered.Load() >= before+20 || t.Failed() })
			}
			testkit.Must(t, idle.ask(aRequest))
			if last, err := idle.answer(); first != "0" || last != "20" || err != nil {
				t.Errorf("a connection is answered by %s and then by %s, %v", first, last, err)
			}
			testkit.Must(t, silent.ask(aRequest))
			if only, err := silent.answer(); only != "20" || err != nil {
				t.Errorf("the first request of a connection made long before is answered by %q, %v", only, err)
			}
			silent.Close()
			stop.Store(true)
			asking.Wait()
			idle.Close()
			present.end(t)
			t.Logf("%d requests answered", answered.Load())
		})
	}
}

// A connection that was idle for a while is closed; one that is in use gets the time that it needs.
func TestDrainingClosesIdleConnectionsAndNoOther(t *testing.T) {
	socket := opened(t, quiet)
	v := serve(socket, nil, "v")
	conns := make([]*client, 2)
	for i := range conns {
		conn := testkit.Dial(t, "tcp", socket.Addr().String())
		conns[i] = &client{conn, bufio.NewReader(conn)}
		testkit.Must(t, conns[i].ask(aRequest))
		_, err := conns[i].answer()
		testkit.Must(t, err)
	}
	testkit.Must(t, conns[1].ask(aRequest[:9]))
	drained := make(chan error, 1)
	go func() { drained <- v.Drain(t.Context()) }()
	if _, err := conns[0].answer(); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection: %v, want EOF", err)
	}
	testkit.Check(t, conns[1].ask(strings.Replace(aRequest[9:], "Host", "Connection: close\r\nHost", 1)))
	if got, err := conns[1].answer(); got != "v" || err != nil {
		t.Errorf("the request under way: %q, %v", got, err)
	}
	testkit.Check(t, testkit.Receive(t, drained))
	v.end(t)
}

// A connection that stays busy longer than a hand-over waits is closed, whatever it does.
func TestConnectionsThatAHandOverLeavesBehindAreClosed(t *testing.T) {
	server, clients := listentest.TLS(t)
	for name, config := range map[string]*tls.Config{"plain": nil, "TLS": server} {
		t.Run(name, func(t *testing.T) {
			socket := opened(t, quiet)
			present := serve(socket, config, "before")
			conn := testkit.Dial(t, "tcp", socket.Addr().String())
			if config != nil {
				conn = tls.Client(conn, clients)
			}
			c := &client{conn, bufio.NewReader(conn)}
			testkit.Must(t, c.ask(aRequest+aRequest[:9]))
			if got, err := c.answer(); got != "before" {
				t.Fatal(got, err)
			}
			next := serve(socket, config, "after")
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := present.HandOver(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
			present.CloseConns()
			_ = c.ask(aRequest[9:]) // it may be closed already
			if got, err := c.answer(); err == nil {
				t.Errorf("answered by %q", got)
			}
			present.end(t)
			next.end(t)
		})
	}
}
