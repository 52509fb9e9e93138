// Package upstreamtest is a CMS over real HTTP for tests, one that can misbehave.
//
// A request is first recorded (Requests, Count), then answered: by the next answer scripted with
// Next or FailNext, otherwise the failure set with Fail, otherwise the path's content (Set, Record,
// Handle, HandlePath), otherwise Django's 404 page. The answer is chosen on arrival, since a slow
// CMS reads its database early and sends late: a request that waits at a Block gets what was
// current when it arrived, even if other content is Set before it goes on.
//
// New serves the three documents recorded from a Django REST Framework CMS.
package upstreamtest

import (
	"embed"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

//go:embed recorded
var recorded embed.FS

// Recording returns a raw HTTP response of the recorded CMS by its name, "crash-500", or of another
// CMS, "strapi5/banners-list".
func Recording(tb testing.TB, name string) []byte {
	tb.Helper()
	raw, err := recorded.ReadFile("recorded/" + name + ".http")
	if err != nil {
		tb.Fatalf("upstreamtest: %v", err)
	}
	return raw
}

// Recordings returns the names of all recordings of one CMS, "strapi5".
func Recordings(tb testing.TB, cms string) []string {
	tb.Helper()
	files, err := recorded.ReadDir("recorded/" + cms)
	if err != nil {
		tb.Fatalf("upstreamtest: %v", err)
	}
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = cms + "/" + strings.TrimSuffix(file.Name(), ".http")
	}
	return names
}

// Request is a request that the CMS received.
type Request struct {
	Method string
	Path   string
	Query  string
	Host   string
	Header http.Header
}

// CMS is a server on its own loopback port. It ends with the test. All methods can be called while
// it serves.
type CMS struct {
	// URL is its base URL, without a trailing slash.
	URL string

	tb   testing.TB
	addr string

	mu       sync.Mutex       // guards the fields below
	server   *httptest.Server // nil while down
	paths    map[string]http.Handler
	next     []http.Handler
	failing  http.Handler
	gates    []chan struct{} // closed by their releases
	requests []Request
}

// New starts a CMS that serves the recorded documents.
func New(tb testing.TB) *CMS {
	tb.Helper()
	c := &CMS{tb: tb, paths: map[string]http.Handler{}}
	c.Up()
	c.URL = "http://" + c.addr
	c.Record(shape.Catalogue, Recording(tb, "gvapp-get"))
	c.Record(shape.Rules, Recording(tb, "rules-get"))
	c.Record(shape.Banners, Recording(tb, "singlebanner-get"))
	tb.Cleanup(c.Down)
	return c
}

// Down closes the port and every connection: the CMS cannot be reached. Requests in flight are cut
// off.
func (c *CMS) Down() {
	c.mu.Lock()
	server := c.server
	c.server = nil
	c.mu.Unlock()
	if server != nil {
		_ = server.Listener.Close() // before the connections, which are not to come again
		server.CloseClientConnections()
		server.Close()
	}
}

// Up opens the same port again. It does nothing while the CMS is up.
func (c *CMS) Up() {
	c.tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		return
	}
	l, err := c.listen()
	if err != nil {
		c.tb.Fatalf("upstreamtest: %v", err)
	}
	c.addr = l.Addr().String()
	c.server = &httptest.Server{Listener: l, Config: &http.Server{
		Handler:           http.HandlerFunc(c.serve),
		ReadHeaderTimeout: testkit.Patience,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}}
	c.server.Start()
}

// listen opens the port, at first any below those that the system gives to connections: one of them
// could take it while the CMS is down.
func (c *CMS) listen() (l net.Listener, err error) {
	if c.addr != "" {
		return net.Listen("tcp", c.addr)
	}
	for range 100 {
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))); err == nil {
			break
		}
	}
	return l, err
}

func (c *CMS) serve(w http.ResponseWriter, req *http.Request) {
	answer, gates := c.arrive(req)
	for _, gate := range gates {
		select {
		case <-gate:
		case <-req.Context().Done():
			return
		}
	}
	answer.ServeHTTP(w, req)
}

// arrive records the request and chooses its answer.
func (c *CMS) arrive(req *http.Request) (http.Handler, []chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, Request{
		Method: req.Method, Path: req.URL.Path, Query: req.URL.RawQuery, Host: req.Host, Header: req.Header.Clone(),
	})
	answer := c.paths[req.URL.Path]
	if answer == nil {
		answer = HTML(http.StatusNotFound)
	}
	if c.failing != nil {
		answer = c.failing
	}
	if len(c.next) > 0 {
		answer, c.next = c.next[0], c.next[1:]
	}
	return answer, slices.Clone(c.gates)
}

// Set serves body as r: JSON with a strong ETag over it, and 304 to a matching If-None-Match.
func (c *CMS) Set(r shape.Resource, body string) { c.Handle(r, JSON(body)) }

// Record serves a raw recorded HTTP answer as r: its status, headers and body.
func (c *CMS) Record(r shape.Resource, raw []byte) {
	c.tb.Helper()
	c.Handle(r, Recorded(c.tb, raw))
}

// Handle answers for r with h: one of this package's answers or any other.
func (c *CMS) Handle(r shape.Resource, h http.Handler) { c.HandlePath(r.Route(), h) }

// HandlePath answers with h at exactly path.
func (c *CMS) HandlePath(path string, h http.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths[path] = h
}

// Fail answers every request with status, until Recover. Header is pairs of name and value.
func (c *CMS) Fail(status int, header ...string) { c.setFailing(Status(status, header...)) }

// Recover ends what Fail began.
func (c *CMS) Recover() { c.setFailing(nil) }

func (c *CMS) setFailing(h http.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing = h
}

// Next answers the next requests, whatever they are for, with one of hs each.
func (c *CMS) Next(hs ...http.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = append(c.next, hs...)
}

// FailNext answers the next n requests with status. Header is pairs of name and value.
func (c *CMS) FailNext(n, status int, header ...string) {
	c.Next(slices.Repeat([]http.Handler{Status(status, header...)}, n)...)
}

// Block makes requests from now on wait until release is called, they are cut off, or the test
// ends. Calling release again does nothing.
func (c *CMS) Block() (release func()) {
	gate := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gates = append(c.gates, gate)
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.gates = slices.DeleteFunc(c.gates, func(g chan struct{}) bool { return g == gate })
		close(gate)
	})
}

// Count returns how many requests for r have arrived.
func (c *CMS) Count(r shape.Resource) (n int) {
	for _, req := range c.Requests() {
		if req.Path == r.Route() {
			n++
		}
	}
	return n
}

// WaitCount waits until n requests for r have arrived, and fails the test if they do not.
func (c *CMS) WaitCount(r shape.Resource, n int) {
	c.tb.Helper()
	testkit.Eventually(c.tb, fmt.Sprintf("%d requests for %s", n, r), func() bool { return c.Count(r) >= n })
}

// Requests returns the requests so far, in order of arrival.
func (c *CMS) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// Last returns the latest request, and fails the test if there was none.
func (c *CMS) Last() Request {
	c.tb.Helper()
	all := c.Requests()
	if len(all) == 0 {
		c.tb.Fatal("upstreamtest: no request arrived")
	}
	return all[len(all)-1]
}
