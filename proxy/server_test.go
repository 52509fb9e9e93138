package proxy

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cmd/testkit"
	"vitrine/proxy/listen"
	"vitrine/proxy/processors"
	"vitrine/proxy/represent"
	"vitrine/upstream/shape"
)

var _ Documents = (*cache.Reader[*represent.Document])(nil)

// held is a source that holds a document: a real one, prepared by Prepare, with the status and
// times of the test.
type held struct {
	prepare func(*cache.Document) (*represent.Document, error)

	mu     sync.Mutex
	answer cache.Answer[*represent.Document]
	err    error
}

func (h *held) Get(context.Context) (cache.Answer[*represent.Document], error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answer, h.err
}

// hold gives out body from now on, as a hit that is fresh for a minute.
func (h *held) hold(t testing.TB, body []byte) {
	t.Helper()
	now := time.Now()
	h.holdDocument(t, &cache.Document{
		Body: body, ETag: cache.ETag(body),
		FetchedAt: now, ChangedAt: now.Add(-time.Hour), FreshUntil: now.Add(time.Minute),
	}, cache.Status{Detail: cache.DetailMemory})
}

func (h *held) holdDocument(t testing.TB, d *cache.Document, st cache.Status) {
	t.Helper()
	p, err := h.prepare(d)
	testkit.Must(t, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer, h.err = cache.Answer[*represent.Document]{Value: p, Document: d, Status: st}, nil
}

// fail gives out an error from now on.
func (h *held) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer, h.err = cache.Answer[*represent.Document]{}, err
}

// rig is a server on a TCP port, and what it serves.
type rig struct {
	server      *Server
	connections *Connections
	addr        string
	sources     map[shape.Resource]*held
	log         *testkit.Buffer
}

// emptyOf is a document with nothing in it.
func emptyOf(res shape.Resource) []byte {
	if res == shape.Catalogue {
		return []byte(`{"artist":[],"artwork":[],"gallery":[]}`)
	}
	return []byte(`[]`)
}

// complete has the limits and the header of the default configuration where a test leaves them out.
func complete(o Options) Options {
	l := &o.Limits
	l.MaxTargetBytes, l.MaxHeaderBytes = cmp.Or(l.MaxTargetBytes, 4<<10), cmp.Or(l.MaxHeaderBytes, 12<<10)
	l.MaxBodyBytes, l.MaxConnections = cmp.Or(l.MaxBodyBytes, 64<<10), cmp.Or(l.MaxConnections, 256<<10)
	l.ReadTimeout, l.WriteTimeout = cmp.Or(l.ReadTimeout, 10*time.Second), cmp.Or(l.WriteTimeout, time.Minute)
	l.IdleTimeout, o.ClientHeader = cmp.Or(l.IdleTimeout, 2*time.Minute), cmp.Or(o.ClientHeader, "X-Forwarded-For")
	return o
}

// newRig starts a server that holds small documents. Options that are left out have usable values.
func newRig(t testing.TB, o Options) *rig {
	t.Helper()
	r := &rig{sources: map[shape.Resource]*held{}, log: new(testkit.Buffer)}
	o.Documents = map[shape.Resource]Documents{}
	builders := processors.New()
	for _, res := range shape.Resources() {
		h := &held{prepare: represent.Prepare(res, builders)}
		h.hold(t, emptyOf(res))
		r.sources[res] = h
		o.Documents[res] = h
	}
	o.Logger, o.Meter = cmp.Or(o.Logger, slog.New(slog.NewTextHandler(r.log, nil))), cmp.Or(o.Meter, newMeter(t))
	var err error
	r.server, err = New(complete(o))
	testkit.Must(t, err)
	r.connections = NewConnections(r.server, listen.Buffer)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	r.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- r.connections.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		testkit.Check(t, r.connections.Shutdown(ctx))
		testkit.Check(t, testkit.Receive(t, served))
	})
	return r
}

// holdRecorded serves the normalized body of a recorded answer.
func (r *rig) holdRecorded(t testing.TB, res shape.Resource, name string) {
	t.Helper()
	d, err := shape.Normalize(res, readRecorded(t, name).body)
	testkit.Must(t, err)
	r.sources[res].hold(t, d.Body)
}

// reply is an answer, its body read.
type reply struct {
	*http.Response
	body []byte
}

// send writes a request as it is given, lines separated by \n, over a connection of its own, and
// reads the answer.
func (r *rig) send(t testing.TB, request string) reply {
	t.Helper()
	conn := r.dial(t)
	defer conn.Close()
	head, body, _ := strings.Cut(request, "\n\n")
	head = strings.ReplaceAll(strings.TrimSuffix(head, "\n"), "\n", "\r\n") + "\r\n\r\n"
	testkit.Write(t, conn, head+body)
	method, _, _ := strings.Cut(request, " ")
	return readReply(t, bufio.NewReader(conn), method)
}

// get is send for the usual request.
func (r *rig) get(t testing.TB, target string, fields ...string) reply {
	t.Helper()
	return r.send(t, strings.Join(append([]string{"GET " + target + " HTTP/1.1", "Host: example.org"}, fields...), "\n"))
}

func (r *rig) dial(t testing.TB) net.Conn {
	t.Helper()
	return testkit.Dial(t, "tcp", r.addr)
}

func readReply(t testing.TB, from *bufio.Reader, method string) reply {
	t.Helper()
	resp, err := http.ReadResponse(from, &http.Request{Method: method})
	for err == nil && resp.StatusCode == http.StatusContinue {
		resp, err = http.ReadResponse(from, &http.Request{Method: method})
	}
	testkit.Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	return reply{Response: resp, body: body}
}
