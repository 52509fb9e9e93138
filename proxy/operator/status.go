package operator

import (
	"time"

	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/verdict"
	"vitrine/upstream/shape"
)

// Status is the body of /api/status and the content of the page; docs/status.md describes it field
// by field. Pointers are nil where nothing is known.
type Status struct {
	Name      string                       `json:"name"` // of the host
	Version   string                       `json:"version"`
	Started   time.Time                    `json:"started"`
	Now       time.Time                    `json:"now"`
	Draining  bool                         `json:"draining"`
	Public    string                       `json:"public"`   // the public address as a URL
	Settings  string                       `json:"settings"` // the fingerprint of the configuration, secrets apart
	Verdict   verdict.Verdict              `json:"verdict"`
	Upstream  verdict.CMS                  `json:"upstream"`
	Redis     verdict.Redis                `json:"redis"`
	Resources map[shape.Resource]*Resource `json:"resources"`
	Notify    []verdict.Endpoint           `json:"notify"` // by target
	Commands  []Command                    `json:"commands"`

	metrics.Past
}

// Resource is the state of one resource.
type Resource struct {
	State string `json:"state"` // follows from the others

	verdict.Document
}

// Milliseconds is a duration as the status has it.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Command is a shell command, and its effect.
type Command struct {
	Does    string `json:"does"`
	Command string `json:"command"`
}

// complete adds the snapshot, its verdict, and the last hour.
func (st *Status) complete(s verdict.Snapshot, past metrics.Past) {
	s.Draining = st.Draining
	st.Now, st.Upstream, st.Redis, st.Notify, st.Past = s.Now, s.CMS, s.Redis, append([]verdict.Endpoint{}, s.Notify...), past
	st.Verdict = verdict.Of(s)
	st.Upstream.Level, st.Redis.Level = st.Verdict.CMS, st.Verdict.Redis
	st.Resources = make(map[shape.Resource]*Resource, shape.Count)
	for r, d := range s.Documents {
		st.Resources[r] = &Resource{d.State(st.Verdict.CMS), d}
	}
}

// Used is the share of the freshness of the copy that is over, or else of the time for which it is
// served, in hundredths.
func (r *Resource) Used() float64 {
	h := r.Held
	if h == nil || r.State == verdict.StateIdle {
		return 0
	}
	end := h.ServableUntil
	if h.Left > 0 {
		end = h.FreshUntil
	}
	return 100 * min(1, max(0, 1-(end.Sub(h.FreshUntil).Seconds()+h.Left)/max(1, end.Sub(h.FetchedAt).Seconds())))
}
