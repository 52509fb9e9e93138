package operator

import (
	"net/http"
	"sync"
	"time"

	"vitrine/cache"
	"vitrine/proxy/metrics"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// Status is what /api/status shows and what the page is made of; docs/status.md describes it field by field.
// Pointers are nil where there is nothing to tell.
type Status struct {
	Version   string                      `json:"version"`
	Started   time.Time                   `json:"started"`
	Now       time.Time                   `json:"now"`
	Draining  bool                        `json:"draining"`
	Public    string                      `json:"public"` // the public address as a URL
	Upstream  Upstream                    `json:"upstream"`
	Redis     Redis                       `json:"redis"`
	Resources map[shape.Resource]Resource `json:"resources"`
	Traffic   metrics.Traffic             `json:"traffic"`
	Events    []metrics.Event             `json:"events"` // of the last hour, newest first
	Replicas  Replicas                    `json:"replicas"`
	Commands  []Command                   `json:"commands"`
	History   History                     `json:"history"`
}

// Upstream is the CMS.
type Upstream struct {
	URL         string        `json:"url"`
	Source      string        `json:"source"` // the fingerprint that documents in Redis carry
	Level       metrics.Level `json:"level"`
	BreakerOpen bool          `json:"breaker_open"`

	Breaker upstream.Breaker `json:"breaker"`
}

// Redis is the store.
type Redis struct {
	Address   string        `json:"address"`
	Prefix    string        `json:"prefix"`
	Embedded  bool          `json:"embedded"`
	Up        bool          `json:"up"`
	Listening bool          `json:"listening"` // purges are being heard
	Level     metrics.Level `json:"level"`
}

// Resource is what is held of one, and how it was come by.
type Resource struct {
	State    string  `json:"state"` // fresh, stale or missing
	Route    string  `json:"route"`
	Key      string  `json:"key"` // in Redis
	TTL      float64 `json:"ttl_seconds"`
	Held     *Held   `json:"held"`
	Failing  bool    `json:"failing"`         // the last attempt to fetch, whoever made it, failed
	Fetching bool    `json:"fetching"`        // now, by this process, or it waits for whoever does
	Error    string  `json:"error,omitempty"` // why nothing can be served

	LastFetch    *Fetch            `json:"last_fetch"` // by this process
	LastRefusal  *metrics.Refusal  `json:"last_refusal"`
	VersionsSeen int               `json:"versions_seen"`
	Versions     []metrics.Version `json:"versions"` // the last few, newest first
	Fetches      uint64            `json:"fetches"`
	FetchErrors  uint64            `json:"fetch_errors"`
	Purges       uint64            `json:"purges"`
	Incoherent   uint64            `json:"incoherent_samples"`
}

// Held is the document that would be served.
type Held struct {
	ETag          string    `json:"etag"`
	Bytes         int       `json:"bytes"`
	Items         int       `json:"items"`
	FetchedAt     time.Time `json:"fetched_at"`
	ChangedAt     time.Time `json:"changed_at"`
	FreshUntil    time.Time `json:"fresh_until"`
	ServableUntil time.Time `json:"servable_until"` // even if the CMS fails
	Age           float64   `json:"age_seconds"`
	Left          float64   `json:"left_seconds"` // negative when stale
	Stale         bool      `json:"stale"`
	Coherent      bool      `json:"coherent"` // known to be what Redis holds
}

// Fetch is how one attempt to fetch went.
type Fetch struct {
	At           time.Time `json:"at"`
	Milliseconds float64   `json:"milliseconds"`
	Attempts     int       `json:"attempts"`
	Status       int       `json:"status,omitempty"` // of the CMS's answer
	Error        string    `json:"error,omitempty"`
	Repairs      int       `json:"repairs"`

	Suspicions []upstream.Suspicion `json:"suspicions,omitempty"`
}

// Replicas are the processes that share the Redis and the prefix.
type Replicas struct {
	Known bool      `json:"known"` // false while Redis is away, or refuses to keep the list
	Agree bool      `json:"agree"` // those that hold a resource hold the same content of the same source
	List  []Replica `json:"list"`
}

// Replica is one of them as it last reported itself.
type Replica struct {
	Name  string  `json:"name"`
	Self  bool    `json:"self"`
	Age   float64 `json:"age_seconds"` // of its report
	Agree bool    `json:"agree"`       // with this process
	Report
}

// Report is what a replica tells the others of itself.
type Report struct {
	Version string                    `json:"version"`
	Started time.Time                 `json:"started"`
	Source  string                    `json:"source"`
	ETags   map[shape.Resource]string `json:"etags"` // of what it holds
}

// Command is something to type, and what it does.
type Command struct {
	Does    string `json:"does"`
	Command string `json:"command"`
}

// History is the last hour: each list has a value for each time in At. A value is null where nothing was measured.
type History struct {
	At                []time.Time     `json:"at"`
	RequestsPerSecond []float64       `json:"requests_per_second"`
	HitRatio          []*float64      `json:"hit_ratio"`
	P50               []*float64      `json:"p50_ms"`
	P95               []*float64      `json:"p95_ms"`
	P99               []*float64      `json:"p99_ms"`
	Failures          []uint64        `json:"failures"`
	CMS               []metrics.Level `json:"cms"`
	Redis             []metrics.Level `json:"redis"`
}

// HeldOf describes what a reader holds.
func HeldOf(s cache.Snapshot, now time.Time) *Held {
	d := s.Document
	if d == nil {
		return nil
	}
	return &Held{
		ETag: d.ETag, Bytes: len(d.Body),
		FetchedAt: d.FetchedAt, ChangedAt: d.ChangedAt, FreshUntil: d.FreshUntil, ServableUntil: s.ServableUntil,
		Age: now.Sub(d.FetchedAt).Seconds(), Left: d.FreshUntil.Sub(now).Seconds(),
		Stale: s.State != cache.StateFresh, Coherent: s.Coherent,
	}
}

// told is what the options tell, and this server knows by itself.
func (s *Server) told() Status {
	var st Status
	if s.options.Status != nil {
		st = s.options.Status()
	}
	st.Now, st.Draining = time.Now(), s.draining.Load()
	return st
}

// collect asks for the status, and adds what this package knows and counts.
func (s *Server) collect() (Status, []metrics.Point) {
	st := s.told()
	if st.Resources == nil {
		st.Resources = map[shape.Resource]Resource{}
	}
	st.Events = []metrics.Event{} // a list in JSON is never null
	for _, r := range shape.Resources() {
		if held := st.Resources[r].Held; held != nil && s.options.Document != nil {
			if d := s.options.Document(r); d != nil && d.ETag == held.ETag {
				held.Items = s.items.of(r, d)
			}
		}
	}
	st.Replicas.compare(st.Upstream.Source)
	if s.options.Meter == nil {
		return st, nil
	}
	o := s.options.Meter.Overview()
	st.Upstream.Level, st.Redis.Level = o.CMS, o.Redis
	st.Traffic, st.Events, st.History = o.Traffic, append(st.Events, o.Events...), historyOf(o.Points)
	for i, n := range o.Resources {
		r := shape.Resources()[i]
		told := st.Resources[r]
		told.LastRefusal, told.VersionsSeen = n.Refusal, n.VersionsSeen
		told.Versions = append([]metrics.Version{}, n.Versions...)
		told.Fetches, told.FetchErrors, told.Purges, told.Incoherent = n.Fetches, n.FetchErrors, n.Purges, n.Incoherent
		st.Resources[r] = told
	}
	return st, o.Points
}

// compare finds out who agrees with this process.
func (rs *Replicas) compare(source string) {
	rs.Agree = rs.Known
	var own map[shape.Resource]string
	for _, r := range rs.List {
		if r.Self {
			own = r.ETags
		}
	}
	for i := range rs.List {
		r := &rs.List[i]
		r.Agree = r.Source == source
		for resource, etag := range r.ETags {
			r.Agree = r.Agree && (own[resource] == "" || own[resource] == etag)
		}
		rs.Agree = rs.Agree && r.Agree
	}
}

func historyOf(points []metrics.Point) History {
	n := len(points)
	h := History{
		At: make([]time.Time, 0, n), RequestsPerSecond: make([]float64, 0, n), HitRatio: make([]*float64, 0, n),
		P50: make([]*float64, 0, n), P95: make([]*float64, 0, n), P99: make([]*float64, 0, n),
		Failures: make([]uint64, 0, n), CMS: make([]metrics.Level, 0, n), Redis: make([]metrics.Level, 0, n),
	}
	for _, p := range points {
		h.At = append(h.At, p.At)
		h.RequestsPerSecond = append(h.RequestsPerSecond, p.RequestsPerSecond)
		h.HitRatio = append(h.HitRatio, p.HitRatio)
		h.P50, h.P95, h.P99 = append(h.P50, p.P50), append(h.P95, p.P95), append(h.P99, p.P99)
		h.Failures = append(h.Failures, p.Failures)
		h.CMS, h.Redis = append(h.CMS, p.CMS), append(h.Redis, p.Redis)
	}
	return h
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	st, _ := s.collect()
	s.answer(w, http.StatusOK, st)
}

// itemCounts remembers how many items the documents last looked at have.
type itemCounts struct {
	mu   sync.Mutex // guards last
	last map[shape.Resource]itemCount
}

type itemCount struct {
	etag  string
	items int
}

func (c *itemCounts) of(r shape.Resource, d *cache.Document) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.last[r]; ok && known.etag == d.ETag {
		return known.items
	}
	lists, err := listsOf(r, d.Body)
	if err != nil {
		return 0 // never: what is held was decoded before it was admitted
	}
	n := 0
	for _, l := range lists {
		n += len(l.items)
	}
	if c.last == nil {
		c.last = map[shape.Resource]itemCount{}
	}
	c.last[r] = itemCount{etag: d.ETag, items: n}
	return n
}
