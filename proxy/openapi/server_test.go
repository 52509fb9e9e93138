package openapi

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/proxy"
	"vitrine/proxy/represent"
	"vitrine/upstream/sample"
	"vitrine/upstream/shape"
)

// held is a source that holds a document, or fails.
type held struct {
	mu     sync.Mutex
	answer cache.Answer[*represent.Document]
	err    error
}

func (h *held) Get(context.Context) (cache.Answer[*represent.Document], error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answer, h.err
}

func (h *held) hold(t *testing.T, r shape.Resource, body []byte) {
	t.Helper()
	now := time.Now()
	d := &cache.Document{Body: body, ETag: cache.ETag(body), FetchedAt: now, ChangedAt: now.Add(-time.Hour), FreshUntil: now.Add(time.Minute)}
	p, err := represent.Prepare(r)(d)
	if err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer, h.err = cache.Answer[*represent.Document]{Value: p, Document: d, Status: cache.Status{Detail: cache.DetailMemory}}, nil
}

func (h *held) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer, h.err = cache.Answer[*represent.Document]{}, err
}

// start serves the sample until the test ends.
func start(t *testing.T) (url string, sources map[shape.Resource]*held) {
	t.Helper()
	sources = map[shape.Resource]*held{}
	o := proxy.Options{Documents: map[shape.Resource]proxy.Documents{}, CORSOrigins: []string{"*"}, Logger: slog.New(slog.DiscardHandler)}
	for r, body := range sampleDocuments(t) {
		sources[r] = new(held)
		sources[r].hold(t, r, body)
		o.Documents[r] = sources[r]
	}
	server, err := proxy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String(), sources
}

func sampleDocuments(t *testing.T) map[shape.Resource][]byte {
	t.Helper()
	all := map[shape.Resource][]byte{}
	for _, r := range shape.Resources() {
		raw, err := sample.FS.ReadFile(string(r) + ".json")
		if err != nil {
			t.Fatal(err)
		}
		all[r] = normalized(t, r, raw)
	}
	return all
}

func normalized(t *testing.T, r shape.Resource, raw []byte) []byte {
	t.Helper()
	d, err := shape.Normalize(r, raw)
	if err != nil {
		t.Fatal(err)
	}
	return d.Body
}
