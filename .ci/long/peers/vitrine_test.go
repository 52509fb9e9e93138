// Package peers tests vitrine with the software around it in practice: nginx and Varnish with the
// configurations of docs/deploy/proxies.
//
// Each test starts a CMS, vitrine in front of it, and the peer, on free ports. The exchanges
// between peer and vitrine are counted by a relay between them.
package peers

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
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

	relay *httptest.Server
}

// startVitrine runs it until the test ends or Stop is called, with settings of its environment.
// Tools are the other programs of the test: if one is missing, the test skips before anything is
// started.
func startVitrine(t *testing.T, environ []string, tools ...tool) *vitrine {
	t.Helper()
	for _, needed := range tools {
		needed.path(t)
	}
	v := &vitrine{cms: upstreamtest.New(t), log: &exchanges{Transport: http.Transport{DisableCompression: true}}}
	v.Served = harness.Serve(t, append([]string{
		"VITRINE_UPSTREAM_URL=" + v.cms.URL, "VITRINE_STALE_WHILE_REVALIDATE=0s", "VITRINE_STALE_IF_ERROR=0s",
	}, environ...)...)
	v.relay = httptest.NewServer(v.log.relay(v.Public))
	t.Cleanup(v.relay.Close)
	v.Addr = v.relay.Listener.Addr().String()
	return v
}

// Stop ends it and the relay, like a crash of the machine: nobody listens any more.
func (v *vitrine) Stop() {
	v.relay.CloseClientConnections()
	v.relay.Close()
	v.Served.Stop()
}

// An exchange is a request that reached vitrine, and the status of the response, 0 while there is none.
type exchange struct {
	*http.Request
	status int
}

// exchanges carries requests to vitrine, and notes them: so that a client with a response finds it here.
type exchanges struct {
	http.Transport
	mu  sync.Mutex // guards all
	all []*exchange
}

// RoundTrip implements http.RoundTripper.
func (e *exchanges) RoundTrip(r *http.Request) (*http.Response, error) {
	x := &exchange{Request: r}
	e.mu.Lock()
	e.all = append(e.all, x)
	e.mu.Unlock()
	response, err := e.Transport.RoundTrip(r)
	e.mu.Lock()
	defer e.mu.Unlock()
	if x.status = -1; err == nil {
		x.status = response.StatusCode
	}
	return response, err
}

// take returns the exchanges since the last call, once they are complete, or after a while: a peer can
// serve its client a stale copy before its own request is answered.
func (e *exchanges) take() (taken []exchange) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for range 200 {
		if !slices.ContainsFunc(e.all, func(x *exchange) bool { return x.status == 0 }) {
			break
		}
		e.mu.Unlock()
		<-time.After(10 * time.Millisecond)
		e.mu.Lock()
	}
	for _, x := range e.all {
		taken = append(taken, *x)
	}
	e.all = nil
	return taken
}

// relay passes requests on to target as they are.
func (e *exchanges) relay(target string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", target
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
		},
		Transport:    e,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
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
