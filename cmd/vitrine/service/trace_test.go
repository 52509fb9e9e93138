package service

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/upstream/sample"
	"vitrine/upstream/shape"
)

func TestATrustedProxysTraceReachesTheCMSAndTheLog(t *testing.T) {
	const id, state = "0af7651916cd43dd8448eb211c80319c", "rojo=00f067aa0ba902b7"
	const parent = "00-" + id + "-b7ad6b7169203331-01"
	for trusted, want := range map[string]bool{"127.0.0.1": true, "10.0.0.0/8": false} {
		var mu sync.Mutex
		var received []string
		content := sample.Handler(sample.Options{})
		cms := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			received = append(received, r.Header.Get("Traceparent")+" "+r.Header.Get("Tracestate"))
			mu.Unlock()
			content.ServeHTTP(w, r)
		}))
		t.Cleanup(cms.Close)
		log := new(testkit.Buffer)
		vitrine := startWith(t, settings(t, "VITRINE_UPSTREAM_URL="+cms.URL, "VITRINE_PROXIES_TRUSTED="+trusted, "VITRINE_LOG_LEVEL=debug"), log)
		vitrine.allAnswer(t, "hit")
		_, err := vitrine.store.Purge(t.Context(), "banners", false, "somebody@host")
		testkit.Must(t, err)
		testkit.Eventually(t, "the banners are not held", func() bool { return vitrine.readers[shape.Banners].Snapshot().Document == nil })
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+vitrine.public.Addr().String()+"/gvapp/singlebanner", http.NoBody)
		testkit.Must(t, err)
		request.Header = http.Header{"Traceparent": {parent}, "Tracestate": {state}}
		response, err := http.DefaultClient.Do(request)
		testkit.Must(t, err)
		testkit.Must(t, response.Body.Close())
		mu.Lock()
		if slices.Contains(received, parent+" "+state) != want || slices.Contains(received, " ") {
			t.Errorf("trusting %s: the CMS received the traces %q; want %s: %t, and new ones otherwise", trusted, received, parent, want)
		}
		mu.Unlock()
		if strings.Contains(log.String(), "trace_id="+id) != want {
			t.Errorf("trusting %s: the log of the fetch has another trace:\n%s", trusted, log)
		}
	}
}
