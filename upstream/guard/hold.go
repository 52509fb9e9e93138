package guard

import (
	"encoding/json"
	"time"
)

// A Hold is a document that is held back. It travels as it is from the lock record to status, page and
// event. Times are those of Redis's clock. The zero value is none.
type Hold struct {
	Since    time.Time  `json:"since"` // the first fetch of such a document in a row
	Until    *time.Time `json:"until"` // when the next one is taken all the same; nil: when an operator accepts it, or the copy served ends
	Reason   string     `json:"reason"`
	Findings Findings   `json:"findings"` // of the last fetch
	Accepted bool       `json:"accepted"` // by an operator: the next document that is no worse is taken
	Command  string     `json:"command"`  // accepts it

	clock clock
}

// clock counts for how long fetches showed one loss, or smaller ones.
type clock struct {
	Seen  time.Time     `json:"seen"` // the last such fetch
	Until *time.Time    `json:"until"`
	Shown time.Duration `json:"shown"` // without the time during which fetches failed
	First Findings      `json:"first"` // those with which it began
}

// End is why a hold ended.
type End string

// The ends of a hold.
const (
	Recovered End = "recovered" // the CMS sent a document that passes
	Accepted  End = "accepted"  // an operator accepted it, or purged the copy
	Expired   End = "expired"   // it lasted so long: what was held back is served
)

// Held reports whether something is held back.
func (h *Hold) Held() bool { return h != nil && !h.Since.IsZero() }

// Ends is until when the document is held back, in words.
func (h *Hold) Ends() string {
	if h.Until == nil {
		return "until accepted"
	}
	return "until " + h.Until.UTC().Format(time.RFC3339) + " unless accepted"
}

// Next is the hold after a fetch that found losses. Unbroken says that no fetch failed since the one
// before it. The clock goes on with the same losses or smaller ones, and begins again with a greater
// one. The hold is over when its time has passed.
func (h *Hold) Next(now time.Time, found Findings, unbroken bool, lasts time.Duration) (next *Hold, over bool) {
	next = &Hold{Since: now, Reason: found.String(), Findings: found, clock: clock{Seen: now, First: found}}
	if h.Held() && !h.Since.After(now) {
		next.Since = h.Since
		if !found.Worse(h.clock.First) {
			next.clock.First, next.clock.Shown = h.clock.First, h.clock.Shown
			if passed := now.Sub(h.clock.Seen); unbroken && passed > 0 {
				next.clock.Shown += passed
			}
		}
	}
	if found.Lasting() {
		return next, false
	}
	until := now.Add(max(lasts-next.clock.Shown, 0))
	next.Until = &until
	return next, next.clock.Shown >= lasts
}

// Covers reports whether an operator who accepts h accepts a document with these findings: it is no
// worse.
func (h *Hold) Covers(found Findings) bool { return h.Held() && !found.Worse(h.Findings) }

// Record is a hold as it stands in the lock record. It can be compared.
type Record struct {
	Since    int64  // Unix milliseconds; 0 for none
	Findings string // in JSON
	Clock    string // likewise
}

// Record is the form in which a hold stands in Redis.
func (h *Hold) Record() Record {
	if !h.Held() {
		return Record{}
	}
	h.clock.Until = h.Until
	findings, _ := json.Marshal(h.Findings) // texts and numbers
	clock, _ := json.Marshal(h.clock)       // and times
	return Record{h.Since.UnixMilli(), string(findings), string(clock)}
}

// Hold reads that form; anything else is nil. What cannot be read of the clock begins again.
func (r Record) Hold() *Hold {
	h := &Hold{Since: time.UnixMilli(r.Since)}
	if r.Since <= 0 || json.Unmarshal([]byte(r.Findings), &h.Findings) != nil || len(h.Findings) == 0 {
		return nil
	}
	if json.Unmarshal([]byte(r.Clock), &h.clock) != nil || h.clock.Shown < 0 {
		h.clock = clock{First: h.Findings}
	}
	h.Reason, h.Until = h.Findings.String(), h.clock.Until
	return h
}
