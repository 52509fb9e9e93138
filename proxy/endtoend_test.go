package proxy_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"vitrine/cache/embedded"
	"vitrine/proxy/proxytest"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// newReplica starts vitrine. Documents are fresh for so short a time that nearly every request
// makes a fetch, and waits for it.
func newReplica(t *testing.T, cms *upstreamtest.CMS, redis string) *replica {
	t.Helper()
	return &replica{proxytest.Start(t, cms.URL, "redis://"+redis, proxytest.Options{
		TTL: 10 * time.Millisecond, StaleIfError: time.Hour, TrustedProxies: []string{"127.0.0.1"},
	})}
}

// replica is a vitrine with a visitor.
type replica struct{ *proxytest.Vitrine }

// visitor sends Accept-Encoding only when it is told to, and gives connections back at once.
var visitor = &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}

// answer is what a visitor gets.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (r *replica) get(t *testing.T, path string, fields ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	resp, err := visitor.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: body}
}

// asTheyCome are fields whose inside is not known to vitrine, so that anything in them is content.
var asTheyCome = []string{"exlude_pages", "page_depth", "page_view_count", "days_delay", "time", "parent"}

// cosmetic is the same document in another dress: other spacing, another order of keys, fields that
// nobody asked for, and timestamps in another offset.
func cosmetic(t *testing.T, body []byte) string {
	t.Helper()
	times := 0
	var dress func(raw json.RawMessage) any
	dress = func(raw json.RawMessage) any {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil && list != nil {
			dressed := make([]any, len(list))
			for i := range list {
				dressed[i] = dress(list[i])
			}
			return dressed
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil || object == nil {
			return raw
		}
		dressed := map[string]any{"a_field_from_a_plugin": "x"} // encoding/json writes keys in alphabetical order
		for key, value := range object {
			var at time.Time
			switch {
			case slices.Contains(asTheyCome, key):
				dressed[key] = value
			case strings.HasSuffix(key, "_at") && json.Unmarshal(value, &at) == nil:
				dressed[key] = at.In(time.FixedZone("", 2*60*60)).Format(time.RFC3339Nano)
				times++
			default:
				dressed[key] = dress(value)
			}
		}
		return dressed
	}
	out, err := json.MarshalIndent(dress(body), "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(body, []byte(`"created_at"`)) && times == 0 {
		t.Fatal("no timestamp was dressed")
	}
	return string(out)
}

// redisOfItsOwn is a store that outlives the processes that use it.
func redisOfItsOwn(t *testing.T) string {
	t.Helper()
	redis, err := embedded.Start("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	return redis.Addr()
}

// secondsPass asks until the clock has moved on by more than a second from when the document
// changed, and the CMS was asked twice more: the first of these fetches may have been under way
// already.
func secondsPass(t *testing.T, r *replica, cms *upstreamtest.CMS, res shape.Resource, modified string) {
	t.Helper()
	changed, err := http.ParseTime(modified)
	if err != nil {
		t.Fatal(err)
	}
	before := cms.Count(res)
	for deadline := time.Now().Add(20 * time.Second); time.Since(changed) < 2*time.Second || cms.Count(res) < before+2; {
		if time.Now().After(deadline) {
			t.Fatal("the CMS is not asked again")
		}
		r.get(t, upstreamtest.Path(res))
	}
}

func TestACosmeticChangeAtTheCMSChangesNoETagAndStillYields304(t *testing.T) {
	cms := upstreamtest.New(t)
	r := newReplica(t, cms, redisOfItsOwn(t))
	type seen struct{ path, coding, tag, modified string }
	var all []seen
	for _, res := range shape.Resources() {
		for _, query := range []string{"", "?format=api", "?ordering=-id"} {
			for _, coding := range []string{"identity", "br", "zstd", "gzip"} {
				path := upstreamtest.Path(res) + query
				resp := r.get(t, path, "Accept-Encoding", coding)
				s := seen{path, coding, resp.header.Get("ETag"), resp.header.Get("Last-Modified")}
				if resp.status != http.StatusOK || s.tag == "" || s.modified == "" {
					t.Fatalf("%+v: %d %v", s, resp.status, resp.header)
				}
				all = append(all, s)
			}
		}
	}
	for _, res := range shape.Resources() {
		resp := r.get(t, upstreamtest.Path(res))
		cms.Set(res, cosmetic(t, resp.body))
		secondsPass(t, r, cms, res, resp.header.Get("Last-Modified"))
		// The CMS's own tag is another one by now: it did send the document again, whole.
		if held := cms.Last().Header.Get("If-None-Match"); held == "" {
			t.Errorf("%s is not fetched by its validator", res)
		}
	}
	for _, s := range all {
		for _, condition := range [][2]string{{"If-None-Match", s.tag}, {"If-Modified-Since", s.modified}} {
			resp := r.get(t, s.path, "Accept-Encoding", s.coding, condition[0], condition[1])
			if resp.status != http.StatusNotModified || resp.header.Get("ETag") != s.tag || resp.header.Get("Last-Modified") != s.modified || len(resp.body) != 0 {
				t.Fatalf("%+v by %s: %d %v", s, condition[0], resp.status, resp.header)
			}
		}
	}
	cms.Set(shape.Banners, `[{"id":1,"title_en":"another"}]`)
	for deadline := time.Now().Add(10 * time.Second); ; {
		resp := r.get(t, "/gvapp/singlebanner", "If-None-Match", all[len(all)-12].tag)
		if resp.status == http.StatusOK && resp.header.Get("Last-Modified") != all[len(all)-12].modified {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a change of the content changes nothing: %d %v", resp.status, resp.header)
		}
	}
}

func TestLastModifiedSurvivesRestartsBecauseItIsInRedis(t *testing.T) {
	cms, redis := upstreamtest.New(t), redisOfItsOwn(t)
	first := newReplica(t, cms, redis)
	const path = "/gvapp/"
	resp := first.get(t, path)
	modified, tag := resp.header.Get("Last-Modified"), resp.header.Get("ETag")
	secondsPass(t, first, cms, shape.Catalogue, modified)
	first.Stop()

	second := newReplica(t, cms, redis)
	before := cms.Count(shape.Catalogue)
	for cms.Count(shape.Catalogue) < before+2 { // what Redis held, and what was fetched since
		resp := second.get(t, path, "If-Modified-Since", modified)
		if resp.status != http.StatusNotModified || resp.header.Get("Last-Modified") != modified || resp.header.Get("ETag") != tag {
			t.Fatalf("after a restart: %d %v, want %s", resp.status, resp.header, modified)
		}
	}
	cms.Down()
	second.Stop()
	third := newReplica(t, cms, redis)
	if resp := third.get(t, path); resp.status != http.StatusOK || resp.header.Get("Last-Modified") != modified {
		t.Errorf("after a restart without a CMS: %d %v", resp.status, resp.header)
	}
}

func TestTheTraceOfARequestReachesTheCMSWithTheFetchItCaused(t *testing.T) {
	const parent, state = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "rojo=00f067aa0ba902b7"
	cms := upstreamtest.New(t)
	r := newReplica(t, cms, redisOfItsOwn(t))
	r.get(t, "/cms/rules/", "traceparent", parent, "tracestate", state)
	h := cms.Last().Header
	if h.Get("traceparent") != parent || h.Get("tracestate") != state {
		t.Errorf("the CMS was told %v", h)
	}
	// A trace that is none is nobody's, and one state that is none is left out.
	for _, tc := range []struct{ parent, state, wantParent string }{
		{"", "", ""},
		{"00-00000000000000000000000000000000-b7ad6b7169203331-01", state, ""},
		{parent, "Not=Valid", parent},
	} {
		for how := ""; !strings.Contains(how, "; fwd=") || strings.Contains(how, "; collapsed"); { // until it waits for its own fetch
			how = r.get(t, "/cms/rules/", "traceparent", tc.parent, "tracestate", tc.state).header.Get("Cache-Status")
		}
		h := cms.Last().Header
		if h.Get("traceparent") != tc.wantParent || h.Get("tracestate") != "" {
			t.Errorf("%+v: the CMS was told %v", tc, h)
		}
	}
}
