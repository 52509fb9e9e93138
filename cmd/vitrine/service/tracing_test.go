package service

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"vitrine/cmd/testkit"
	"vitrine/upstream/sample"
	"vitrine/upstream/shape"
)

// A collectorStandIn takes traces over OTLP/HTTP.
type collectorStandIn struct {
	*httptest.Server
	mu     sync.Mutex
	spans  []*otlp.Span
	about  string // all resources, as text
	keys   []string
	faults []string
}

func newCollectorStandIn(t *testing.T) *collectorStandIn {
	t.Helper()
	c := new(collectorStandIn)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		body, err := io.ReadAll(r.Body)
		var sent otlp.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &sent)
		}
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			c.faults = append(c.faults, r.URL.Path+" "+r.Header.Get("Content-Type"))
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.keys = append(c.keys, r.Header.Get("Api-Key"))
		for _, resource := range sent.GetResourceSpans() {
			c.about += resource.GetResource().String()
			for _, scope := range resource.GetScopeSpans() {
				c.spans = append(c.spans, scope.GetSpans()...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

// trace is the spans of one trace.
func (c *collectorStandIn) trace(t *testing.T, id string) (spans []*otlp.Span) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.faults) > 0 {
		t.Errorf("the collector was sent %q", c.faults)
	}
	for _, s := range c.spans {
		if hex.EncodeToString(s.GetTraceId()) == id {
			spans = append(spans, s)
		}
	}
	return spans
}

// A tracedCMS is the sample, which notes what it was told of traces.
type tracedCMS struct {
	*httptest.Server
	mu      sync.Mutex
	parents []string
}

func newTracedCMS(t *testing.T) *tracedCMS {
	t.Helper()
	c, content := new(tracedCMS), sample.Handler(sample.Options{})
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.parents = append(c.parents, r.Header.Get("Traceparent")+" "+r.Header.Get("Tracestate"))
		c.mu.Unlock()
		content.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

const (
	visitorTrace = "0af7651916cd43dd8448eb211c80319c"
	visitorSpan  = "b7ad6b7169203331"
	visitorState = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
	secretMark   = "marked-secret-4711"
)

// visitCold asks for the banners that have just been purged, as part of the visitor's trace.
func visitCold(t *testing.T, vitrine running, flags string) {
	t.Helper()
	vitrine.allAnswer(t, "hit")
	_, err := vitrine.store.Purge(t.Context(), "banners", false)
	testkit.Must(t, err)
	// A purge is heard a moment after it is acknowledged.
	testkit.Eventually(t, "the banners are not held", func() bool { return vitrine.readers[shape.Banners].Snapshot().Document == nil })
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+vitrine.public.Addr().String()+"/gvapp/singlebanner?token="+secretMark, http.NoBody)
	testkit.Must(t, err)
	request.Header.Set("Traceparent", "00-"+visitorTrace+"-"+visitorSpan+"-"+flags)
	request.Header.Set("Tracestate", visitorState)
	request.Header.Set("Authorization", "Bearer "+secretMark)
	response, err := http.DefaultClient.Do(request)
	testkit.Must(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || !strings.Contains(response.Header.Get("Cache-Status"), "fwd=miss") {
		t.Fatalf("status %d, %s", response.StatusCode, response.Header.Get("Cache-Status"))
	}
}

// startTraced starts vitrine with the collector named by the standard's variables, as they are in
// the environment.
func startTraced(t *testing.T, to *collectorStandIn, cms *tracedCMS, environ ...string) running {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key="+secretMark)
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	return start(t, "VITRINE_UPSTREAM_URL="+cms.URL, "VITRINE_UPSTREAM_AUTHORIZATION=Bearer "+secretMark, "VITRINE_PROXIES_TRUSTED=127.0.0.1")
}

func TestAColdRequestIsOneTraceFromTheVisitorToTheCMS(t *testing.T) {
	to, cms := newCollectorStandIn(t), newTracedCMS(t)
	vitrine := startTraced(t, to, cms, "OTEL_SERVICE_NAME=gallery", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test")
	visitCold(t, vitrine, "01")
	testkit.Must(t, vitrine.stop()) // which exports what is left
	spans := to.trace(t, visitorTrace)
	byName, names := map[string]*otlp.Span{}, []string{}
	for _, s := range spans {
		byName[s.GetName()] = s
		names = append(names, s.GetName())
		if strings.Contains(s.String(), secretMark) {
			t.Errorf("a secret in a span: %v", s)
		}
	}
	const request = "GET /gvapp/singlebanner"
	for name, parent := range map[string]string{
		request: "", "redis acquire": request, "redis fill": request,
		"fetch banners": request, "page": "fetch banners", "normalize": "fetch banners",
	} {
		s, want := byName[name], visitorSpan
		if s == nil {
			t.Errorf("no span %q in %q", name, names)
			continue
		}
		if parent != "" {
			want = hex.EncodeToString(byName[parent].GetSpanId())
		}
		if got := hex.EncodeToString(s.GetParentSpanId()); got != want {
			t.Errorf("the parent of %q is %s, want %s (%s)", name, got, want, parent)
		}
		if s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() || s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR {
			t.Errorf("%v", s)
		}
	}
	want := 6
	if byName["redis look"] != nil { // the visitor came before the replica had looked at what the purge left
		want++
	}
	if len(spans) != want {
		t.Errorf("want %d spans, got %q", want, names)
	}
	if told := "00-" + visitorTrace + "-" + hex.EncodeToString(byName["page"].GetSpanId()) + "-01 " + visitorState; !slices.Contains(cms.parents, told) {
		t.Errorf("the CMS was told %q, not the page's %s", cms.parents, told)
	}
	for _, want := range []string{"gallery", "deployment.environment.name"} {
		if !strings.Contains(to.about, want) {
			t.Errorf("%s is not in the resource: %s", want, to.about)
		}
	}
	if strings.Contains(to.about, secretMark) || len(to.keys) == 0 || to.keys[0] != secretMark {
		t.Errorf("the credentials were sent as %q, the resource is %s", to.keys, to.about)
	}
}

func TestNothingIsExportedThatIsNotToBe(t *testing.T) {
	const passed = "00-" + visitorTrace + "-" + visitorSpan + "-01 " + visitorState
	for _, test := range []struct {
		name, variable, flags string
		unchanged             bool // the visitor's traceparent goes to the CMS as it came, and none with a fetch for nobody
	}{
		{name: "the visitor's trace is not sampled", variable: "OTEL_TRACES_SAMPLER=parentbased_always_off", flags: "00"},
		{name: "the sampler says no", variable: "OTEL_TRACES_SAMPLER=always_off", flags: "01"},
		{name: "the SDK is disabled", variable: "OTEL_SDK_DISABLED=true", flags: "01", unchanged: true},
		{name: "no endpoint", variable: "OTEL_EXPORTER_OTLP_ENDPOINT=", flags: "01", unchanged: true},
		{name: "no exporter", variable: "OTEL_TRACES_EXPORTER=none", flags: "01", unchanged: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			to, cms := newCollectorStandIn(t), newTracedCMS(t)
			vitrine := startTraced(t, to, cms, test.variable)
			visitCold(t, vitrine, test.flags)
			testkit.Must(t, vitrine.stop())
			if len(to.spans) > 0 {
				t.Errorf("%d spans: %v", len(to.spans), to.spans)
			}
			if got := slices.Contains(cms.parents, passed) && slices.Contains(cms.parents, " "); got != test.unchanged {
				t.Errorf("the CMS was told %q", cms.parents)
			}
		})
	}
}

func TestACollectorThatIsAwayHoldsNothingUp(t *testing.T) {
	to, cms := newCollectorStandIn(t), newTracedCMS(t)
	to.Close()
	vitrine := startTraced(t, to, cms)
	visitCold(t, vitrine, "01")
	testkit.Check(t, vitrine.stop())
}
