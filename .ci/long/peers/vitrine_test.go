// Package peers tests vitrine with the software around it in practice: nginx and Varnish with the
// configurations of docs/deploy/proxies.
//
// Each test starts a CMS, vitrine in front of it, and the peer, on free ports. The exchanges
// between peer and vitrine are counted by a relay between them.
package peers

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/upstreamtest"
)

// patience bounds the wait for something that should happen soon.
const patience = 15 * time.Second

// routes are the public paths.
var routes = harness.Routes

func TestMain(m *testing.M) { harness.Main(m) }

// vitrine is a running one with its CMS. Peers reach it through a relay, which logs what they send.
type vitrine struct {
	*harness.Served
	Addr string // the relay's
	cms  *upstreamtest.CMS
	log  *exchanges

	relay net.Listener
}

// startVitrine runs it until the test ends or Stop is called, with settings of its environment.
// Tools are the other programs of the test: if one is missing, the test skips before anything is
// started.
func startVitrine(t *testing.T, environ []string, tools ...tool) *vitrine {
	t.Helper()
	for _, needed := range tools {
		needed.path(t)
	}
	v := &vitrine{cms: upstreamtest.New(t), log: newExchanges()}
	v.Served = harness.Serve(t, append([]string{
		"VITRINE_UPSTREAM_URL=" + v.cms.URL, "VITRINE_STALE_WHILE_REVALIDATE=0s", "VITRINE_STALE_IF_ERROR=0s",
	}, environ...)...)
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	v.relay = relay
	v.Addr = v.relay.Addr().String()
	testkit.AcceptFrom(t, relay, func(conn net.Conn) { v.log.pass(conn, v.Public) })
	return v
}

// Stop ends it and the relay, like a crash of the machine: nobody listens any more.
func (v *vitrine) Stop() {
	_ = v.relay.Close() // it is open
	v.Served.Stop()
}

// An exchange is a request that reached vitrine, and the status it answered with.
type exchange struct {
	*http.Request
	status string
}

// exchanges logs the requests that reach a listener. Requests are noted before vitrine reads them,
// and responses before they are sent, so that a client with a response finds it here.
type exchanges struct {
	mu       sync.Mutex
	answered *sync.Cond // on mu: an exchange has its status
	all      []*exchange
}

// answerTime is how long take waits for a response in progress.
const answerTime = 2 * time.Second

func newExchanges() *exchanges {
	e := &exchanges{}
	e.answered = sync.NewCond(&e.mu)
	return e
}

// take returns the exchanges since the last call, once they are complete: a peer can serve its
// client a stale copy before its own request is answered.
func (e *exchanges) take() []exchange {
	late := false
	defer time.AfterFunc(answerTime, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		late = true
		e.answered.Broadcast()
	}).Stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	for !late && slices.ContainsFunc(e.all, func(x *exchange) bool { return x.status == "" }) {
		e.answered.Wait()
	}
	var taken []exchange
	for _, x := range e.all {
		taken = append(taken, *x)
	}
	e.all = nil
	return taken
}

// pass passes a connection on to target, until either side closes it.
func (e *exchanges) pass(conn net.Conn, target string) {
	there, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer there.Close()
	tapped := &tappedConn{Conn: conn, log: e}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = io.Copy(tapped, there) // until either side closes
		_ = conn.Close()
	}()
	_, _ = io.Copy(there, tapped)
	_ = there.(*net.TCPConn).CloseWrite() // its answers come still
	<-answered
}

// tappedConn follows one connection. Peers send requests without bodies, one after the other.
type tappedConn struct {
	net.Conn
	log     *exchanges
	pending []byte    // of an incomplete request; used by Read only
	asked   *exchange // the request without an answer; guarded by the log
}

func (c *tappedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.pending = append(c.pending, p[:n]...)
	for {
		end := bytes.Index(c.pending, []byte("\r\n\r\n"))
		if end < 0 {
			return n, err
		}
		req, badly := http.ReadRequest(bufio.NewReader(bytes.NewReader(c.pending[:end+4])))
		c.pending = c.pending[end+4:]
		if badly != nil {
			continue
		}
		c.log.mu.Lock()
		c.asked = &exchange{Request: req}
		c.log.all = append(c.log.all, c.asked)
		c.log.mu.Unlock()
	}
}

func (c *tappedConn) Write(p []byte) (int, error) {
	c.log.mu.Lock()
	if c.asked != nil {
		if _, rest, ok := strings.Cut(string(p[:min(len(p), 64)]), " "); ok {
			c.asked.status, _, _ = strings.Cut(rest, " ")
		}
		c.asked = nil
		c.log.answered.Broadcast()
	}
	c.log.mu.Unlock()
	return c.Conn.Write(p)
}

// A tool is a program that tests run, and the Debian package that it comes from.
type tool struct{ program, debian string }

var (
	nginxTool   = tool{"nginx", "nginx-light"}
	varnishTool = tool{"varnishd", "varnish"}
	gccTool     = tool{"gcc", "gcc libc6-dev"} // varnishd compiles its configuration
)

// path returns the program's path, or skips the test.
func (n tool) path(t *testing.T) string {
	t.Helper()
	return harness.Need(t, n.program, n.debian)
}

// write creates a file in a folder of the test.
func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}
