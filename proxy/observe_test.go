package proxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cmd/testkit"
	"vitrine/proxy/operator/metrics"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

func newMeter(t testing.TB) *metrics.Meter {
	t.Helper()
	m := metrics.New("1.2.3", func() metrics.State { return metrics.State{} })
	return m
}

func TestEveryAnswerIsCountedOnceByWhatItWas(t *testing.T) {
	meter := newMeter(t)
	r := newRig(t, Options{Meter: meter, MaxTargetBytes: 100})
	banners := r.sources[shape.Banners]
	doc := &cache.Document{Body: []byte(`[]`), ETag: `"x"`, FetchedAt: time.Now(), ChangedAt: time.Now(), FreshUntil: time.Now()}

	r.get(t, "/cms/rules/")
	r.get(t, "/cms/rules/?x=1")
	r.send(t, "HEAD /cms/rules/ HTTP/1.1\nHost: x")
	r.send(t, "GET /cms/rules/ HTTP/1.1\nHost: x\nIf-None-Match: *")
	r.send(t, "OPTIONS /cms/rules/ HTTP/1.1\nHost: x")
	r.send(t, "OPTIONS /cms/rules/ HTTP/1.1\nHost: x\nOrigin: https://a.example\nAccess-Control-Request-Method: GET")
	r.send(t, "POST /cms/rules/ HTTP/1.1\nHost: x\nContent-Length: 0")
	r.send(t, "BREW /cms/rules/ HTTP/1.1\nHost: x")
	r.get(t, "/cms/rules")
	r.get(t, "/wp-login.php")
	r.get(t, "/"+strings.Repeat("x", 200))
	banners.holdDocument(t, doc, cache.Status{Stale: true})
	r.get(t, "/gvapp/singlebanner")
	banners.holdDocument(t, doc, cache.Status{Fwd: cache.FwdMiss, FwdStatus: 200, Collapsed: true})
	r.get(t, "/gvapp/singlebanner?ordering=id")
	banners.fail(upstream.ErrUnreachable)
	r.get(t, "/gvapp/singlebanner")
	banners.fail(upstream.ErrAnswer)
	r.get(t, "/gvapp/singlebanner")

	families, err := meter.Gather()
	testkit.Must(t, err)
	got, collapsed := map[string]float64{}, 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch n := m.GetCounter().GetValue(); f.GetName() {
			case "vitrine_requests_total":
				l := m.GetLabel() // by name: cache, code, resource
				if n > 0 {
					got[l[2].GetValue()+" "+l[1].GetValue()+" "+l[0].GetValue()] = n
				}
			case "vitrine_collapsed_total":
				collapsed += n
			}
		}
	}
	want := map[string]float64{
		"rules 200 hit": 3, "rules 304 hit": 1, "rules 200 none": 1, "rules 204 none": 1, "rules 405 none": 2,
		"other 301 none": 1, "other 404 none": 1, "other 414 none": 1,
		"banners 200 stale": 1, "banners 200 miss": 1, "banners 503 miss": 1, "banners 502 miss": 1,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("counted %v,\nwant %v", got, want)
	}
	if collapsed != 1 {
		t.Errorf("%v collapsed, want 1", collapsed)
	}
}

func TestEveryStatusThatFailuresHaveIsCountedAsItself(t *testing.T) {
	meter := newMeter(t)
	for _, f := range append(slices.Clone(failures), internalFailure) {
		meter.Observe(metrics.Answer{Target: metrics.Other, Code: f.status})
	}
	families, err := meter.Gather()
	testkit.Must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "vitrine_requests_total" && m.GetLabel()[1].GetValue() == "other" && m.GetCounter().GetValue() > 0 {
				t.Errorf("counted as other: %v", m)
			}
		}
	}
}
