// Package peers tests vitrine with the software around it in practice: nginx and Varnish with the
// configurations of docs/deploying.md, curl, and a browser.
//
// Each test starts a CMS, all of vitrine in front of it, and the peer, on free ports. The exchanges
// between peer and vitrine are counted at vitrine's listener.
package peers

import (
	"bufio"
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"vitrine/cache/embedded"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/proxy/proxytest"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// patience bounds the wait for something that should happen soon.
const patience = 15 * time.Second

// routes are the public paths.
var routes = map[shape.Resource]string{
	shape.Catalogue: "/gvapp/", shape.Rules: "/cms/rules/", shape.Banners: "/gvapp/singlebanner",
}

// vitrine is a running one with its CMS.
type vitrine struct {
	*proxytest.Vitrine
	cms *upstreamtest.CMS
	log *exchanges
}

// startVitrine runs it until the test ends or Stop is called, which is like a crash of the machine:
// the port is closed. Tools are the other programs of the test: if one is missing, the test skips
// before anything is started.
func startVitrine(t *testing.T, o proxytest.Options, tools ...tool) *vitrine {
	t.Helper()
	for _, needed := range tools {
		needed.path(t)
	}
	if o.CORSOrigins == nil {
		o.CORSOrigins = []string{"*"}
	}
	redis, err := embedded.Start("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	v := &vitrine{cms: upstreamtest.New(t), log: newExchanges()}
	o.Listener = v.log.listener
	v.Vitrine = proxytest.Start(t, v.cms.URL, redis.URL(), o)
	return v
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

func (e *exchanges) listener(l net.Listener) net.Listener { return tapped{l, e} }

type tapped struct {
	net.Listener
	log *exchanges
}

func (l tapped) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tappedConn{Conn: conn, log: l.log}, nil
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
	curlTool    = tool{"curl", "curl"}
	browserTool = tool{"chromium", "chromium"}
)

// path returns the program's path, or skips the test and says how to install it. In CI it must
// exist.
func (n tool) path(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath(n.program)
	if err != nil { // Debian keeps servers where only root's PATH leads
		path, err = exec.LookPath(filepath.Join("/usr/sbin", n.program))
	}
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not installed: apt-get install %s", n.program, n.debian)
	}
	t.Skipf("%s is not installed: apt-get install %s", n.program, n.debian)
	return ""
}

// run starts a program until the test ends, and waits until it accepts connections at addr.
func run(t *testing.T, addr, program string, args ...string) {
	t.Helper()
	var out testkit.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is stopped below
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // unless it has ended
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			said := out.String()
			t.Logf("%s said:\n%s", program, said[max(0, len(said)-4000):])
		}
	})
	testkit.Eventually(t, program+" listens", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s ended:\n%s", program, out.String())
		default:
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
}

// freeAddress returns an address that a program can listen on.
func freeAddress(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(redistest.FreePort(t)))
}

// configuration returns the block of docs/deploying.md that begins with a comment naming file, with
// the test's addresses in place of those in the document.
func configuration(t *testing.T, file string, swap ...string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/deploying.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(page), "\n# "+file+"\n")
	block, _, ended := strings.Cut(after, "\n```")
	if !ok || !ended {
		t.Fatalf("docs/deploying.md has no block that begins with # %s", file)
	}
	for i := 0; i < len(swap); i += 2 {
		if !strings.Contains(block, swap[i]) {
			t.Fatalf("%s does not say %q", file, swap[i])
		}
		block = strings.ReplaceAll(block, swap[i], swap[i+1])
	}
	return block + "\n"
}

// write creates a file in a folder of the test.
func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
