package metrics

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"vitrine/cmd/testkit"
	"vitrine/proxy/verdict"
	"vitrine/upstream"
	"vitrine/upstream/guard"
	"vitrine/upstream/shape"
)

// world is what a meter looks at.
type world struct {
	mu    sync.Mutex
	state verdict.Snapshot
}

func (w *world) look() verdict.Snapshot { w.mu.Lock(); defer w.mu.Unlock(); return w.state }

func (w *world) set(change func(*verdict.Snapshot)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.state)
}

func newMeter(t testing.TB) (*Meter, *world) {
	t.Helper()
	w := &world{state: verdict.Snapshot{Redis: verdict.Redis{Up: true, Answering: true}}}
	m := New("1.2.3", w.look)
	return m, w
}

func TestMetricsHaveTheNamesAndLabelsThatAreDocumented(t *testing.T) {
	m, w := newMeter(t)
	w.set(func(s *verdict.Snapshot) {
		s.Documents = map[shape.Resource]verdict.Document{shape.Banners: {Held: &verdict.Held{FreshUntil: time.Now().Add(time.Minute + 400*time.Millisecond), ServableUntil: time.Unix(1_800_000_000, 0)}}}
		s.Connections, s.MaxConnections, s.CertificateEnds = 3, 1000, time.Unix(1_800_000_000, 0)
	})
	m.Of(shape.Banners).Observe(Answer{Cache: Miss, Collapsed: true, Code: 200, Took: 30 * time.Millisecond})
	m.Of("").Observe(Answer{Code: 404, Took: time.Microsecond})
	m.Of("").Observe(Answer{Code: 999, Took: time.Hour})
	m.Of("").Observe(Answer{Code: -1, Took: -time.Hour})
	m.Fetched("banners", "stored", 40*time.Millisecond, nil)
	m.Fetched("banners", "failed", time.Millisecond, fmt.Errorf("x: %w", upstream.ErrUnreachable))
	m.Fetched("banners", "failed", time.Millisecond, &shape.RefusedError{Path: "banners[3].id", Want: "an integer", Got: `"x"`})
	m.Fetched("banners", "failed", time.Millisecond, errors.New("who knows"))
	m.Fetched("nonsense", "stored", time.Millisecond, nil)
	m.Note(KindPurge, "banners", "")
	m.Note(KindSoftPurge, "banners", "")
	m.Note(KindSoftPurge, "nonsense", "")
	m.Suspected(shape.Banners, guard.Emptied)
	m.Reloaded(false)

	families, err := m.Gather()
	testkit.Must(t, err)
	got := map[string]string{}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			series := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			switch {
			case metric.GetCounter() != nil:
				got[series] = fmt.Sprint(metric.GetCounter().GetValue())
			case metric.GetGauge() != nil:
				got[series] = fmt.Sprintf("%.0f", metric.GetGauge().GetValue())
			default:
				got[series] = fmt.Sprint(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	for series, want := range map[string]string{
		"vitrine_requests_total{cache=miss,code=200,resource=banners}":         "1",
		"vitrine_requests_total{cache=hit,code=200,resource=rules}":            "0",
		"vitrine_requests_total{cache=none,code=404,resource=other}":           "1",
		"vitrine_requests_total{cache=none,code=other,resource=other}":         "2",
		"vitrine_request_duration_seconds{resource=banners}":                   "1",
		"vitrine_request_duration_seconds{resource=other}":                     "3",
		"vitrine_upstream_fetches_total{outcome=stored,resource=banners}":      "1",
		"vitrine_upstream_fetches_total{outcome=unreachable,resource=banners}": "1",
		"vitrine_upstream_fetches_total{outcome=refused,resource=banners}":     "1",
		"vitrine_upstream_fetches_total{outcome=failed,resource=banners}":      "1",
		"vitrine_upstream_fetches_total{outcome=timeout,resource=catalogue}":   "0",
		"vitrine_upstream_fetch_duration_seconds{resource=banners}":            "4",
		"vitrine_collapsed_total{resource=banners}":                            "1",
		"vitrine_purges_total{kind=hard,resource=banners}":                     "1",
		"vitrine_purges_total{kind=soft,resource=banners}":                     "1",
		"vitrine_refused_documents_total{resource=banners}":                    "1",
		"vitrine_entry_fresh_seconds{resource=banners}":                        "60",
		"vitrine_entry_fresh_seconds{resource=rules}":                          "",
		"vitrine_build_info{version=1.2.3}":                                    "1",
		"vitrine_reload_success{}":                                             "0",
		"vitrine_connections{}":                                                "3",
		"vitrine_connections_limit{}":                                          "1000",
		"vitrine_certificate_not_after_seconds{}":                              "1800000000",
		"vitrine_redis_up{}":                                                   "1",
		"vitrine_polls_up{}":                                                   "1",
		"vitrine_polls_unanswered_total{}":                                     "0",
		"vitrine_poll_waits_total{}":                                           "0",
		"vitrine_breaker_open{}":                                               "0",
		"vitrine_visitors_affected{}":                                          "0",
		"vitrine_copies_end_seconds{}":                                         "1800000000",
		"vitrine_suspicions_total{kind=emptied,resource=banners}":              "1",
		"vitrine_suspicions_total{kind=drafts,resource=banners}":               "0",
	} {
		if got[series] != want {
			t.Errorf("%s = %q, want %q", series, got[series], want)
		}
	}
	families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "vitrine_") })
	page, err := os.ReadFile("../../../docs/status.md")
	testkit.Must(t, err)
	for _, f := range families {
		if !strings.Contains(string(page), "`"+f.GetName()+"`") {
			t.Errorf("docs/status.md does not name %s", f.GetName())
		}
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
}

func TestThePastIsKeptForAnHourAndNoLonger(t *testing.T) {
	m, w := newMeter(t)
	begun := time.Now().Add(-2 * time.Hour)
	now := begun
	for ; now.Before(time.Now()); now = now.Add(lookEvery) {
		minute := int(now.Sub(begun).Minutes())
		w.set(func(s *verdict.Snapshot) {
			s.Redis.Up = minute != 90
			s.Documents = map[shape.Resource]verdict.Document{shape.Rules: {Failing: minute == 100}}
		})
		m.Of("").Observe(Answer{Cache: Hit, Code: 200, Took: 40 * time.Microsecond})
		m.remember(now)
	}
	_, o := m.Overview()
	h := o.History
	if n := len(h); n < 355 || n > 363 {
		t.Errorf("%d points", n)
	}
	worst := map[string]int{}
	for _, p := range h {
		worst["redis "+string(p.Redis)]++
		worst["cms "+string(p.CMS)]++
	}
	if worst["redis down"] < 6 || worst["redis down"] > 7 || worst["cms degraded"] < 6 || worst["cms degraded"] > 7 {
		t.Errorf("%v", worst)
	}
	var kinds []string
	for _, e := range o.Events {
		kinds = append(kinds, e.Kind+" "+e.Detail)
	}
	if got := strings.Join(kinds, ", "); got != "cms good, cms degraded, redis good, redis down" {
		t.Errorf("events: %s", got)
	}
	if p := h[10]; p.RequestsPerSecond < 0.9 || p.RequestsPerSecond > 1.1 || *p.HitRatio != 1 || *p.P99 > 0.05 || *p.P50 < 0.025 {
		t.Errorf("%v requests a second, hit ratio %v, p50 %v ms, p99 %v ms", p.RequestsPerSecond, *p.HitRatio, *p.P50, *p.P99)
	}
}

func TestARefusalThatRepeatsIsCountedAndNotRepeated(t *testing.T) {
	m, _ := newMeter(t)
	for range 5 {
		m.Fetched("rules", "failed", time.Millisecond, &shape.RefusedError{Path: "rules[0].id", Want: "an integer", Got: "null"})
	}
	m.Note(KindPurge, "rules", "")
	m.Fetched("rules", "failed", time.Millisecond, &shape.RefusedError{Path: "rules[0].id", Want: "an integer", Got: "null"})
	s, o := m.Overview()
	if len(o.Events) != 2 || o.Events[0].Count != 6 || o.Events[0].Detail != "rules[0].id: want an integer, got null" {
		t.Errorf("%+v", o.Events)
	}
	if r := s.Documents[shape.Rules].LastRefusal; r == nil || r.Count != 6 {
		t.Errorf("%+v", r)
	}
}

func TestWhatIsHeldBackOrSuspiciousIsAnEventOnce(t *testing.T) {
	m, w := newMeter(t)
	drafts := guard.Finding{Kind: guard.Drafts, List: "banners", Before: 2}
	hold := &guard.Hold{Reason: "no banners, 9 before"}
	m.Note(KindHeld, "banners", hold.Reason)
	for i, d := range []verdict.Document{{HeldBack: hold, Suspicions: guard.Findings{drafts}}, {HeldBack: hold, Suspicions: guard.Findings{drafts}}, {}, {Suspicions: guard.Findings{drafts}}} {
		if i == 2 {
			m.Note(KindReleased, "banners", "expired: "+hold.Reason)
		}
		w.set(func(s *verdict.Snapshot) { s.Documents = map[shape.Resource]verdict.Document{shape.Banners: d} })
		m.remember(time.Now())
	}
	var got []string
	_, past := m.Overview()
	for _, e := range slices.Backward(past.Events) {
		got = append(got, e.Kind+" "+e.Resource+" "+e.Detail)
	}
	suspicious := "suspicious banners banners: 2 marked as unpublished"
	if want := []string{"held banners no banners, 9 before", suspicious, "released banners expired: no banners, 9 before", suspicious}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPercentilesAreWithinTheirBucket(t *testing.T) {
	var s totals
	if got := s.percentile(0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	s.requests = 100 // 90 of them up to 5 ms, and 10 beyond all bounds
	for i := 9; i < len(s.within); i++ {
		s.within[i] = 90
	}
	if got := s.percentile(0.45); got < 3.7499 || got > 3.7501 {
		t.Errorf("p45 = %v ms, want 3.75", got)
	}
	if got := s.percentile(0.99); got != 10_000 {
		t.Errorf("p99 = %v, want the last bound", got)
	}
}

func TestAClientOfAnotherVersionOfHTTPIsNoVisitorWithAnError(t *testing.T) {
	m, _ := newMeter(t)
	m.remember(time.Now())
	m.Of("").Observe(Answer{Code: 505})
	if s := m.Snapshot(); s.Total.Errors != 0 || s.Total.All != 1 || s.Recent.Errors != 0 {
		t.Errorf("%+v, %+v", s.Total, s.Recent)
	}
	m.Of(shape.Rules).Observe(Answer{Cache: Miss, Code: 502})
	if s := m.Snapshot(); s.Total.Errors != 1 || s.Recent.Errors != 1 {
		t.Errorf("%+v, %+v", s.Total, s.Recent)
	}
}

// The history is read while answers are being counted.
func TestAnAnswerThatIsNotTimedYetIsNotASlowOne(t *testing.T) {
	m, _ := newMeter(t)
	m.remember(time.Now().Add(-time.Minute))
	m.of[shape.Rules].ok[Hit].Inc()
	if _, past := m.Overview(); past.Traffic.P99 != nil {
		t.Errorf("p99 = %v ms", *past.Traffic.P99)
	}
}
