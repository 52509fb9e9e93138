package verdict

import (
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"vitrine/upstream/shape"
)

// Of judges a snapshot.
func Of(s Snapshot) Verdict {
	v := Verdict{Findings: []Finding{}, Outages: map[shape.Resource]string{}}
	v.process(&s)
	v.fetching(&s)
	v.documents(&s)
	v.Ready = !s.Draining && !v.has("unservable")
	v.Affected = v.has("unservable") || v.has("certificate-expired") || v.has("connections")
	for _, d := range s.Documents {
		if h := d.Held; h != nil && !h.ServableUntil.IsZero() && (v.CopiesUntil == nil || h.ServableUntil.Before(*v.CopiesUntil)) {
			v.CopiesUntil = &h.ServableUntil
		}
	}
	v.Sentence = v.visitors(&s) + " " + v.copies(&s)
	for i := range v.Findings {
		if at := s.Since[v.Findings[i].key]; v.Findings[i].Since == nil && !at.IsZero() {
			v.Findings[i].Since = &at
		}
	}
	severities := []string{Bad, Warn, Neutral}
	slices.SortStableFunc(v.Findings, func(a, b Finding) int {
		return slices.Index(severities, a.Severity) - slices.Index(severities, b.Severity)
	})
	return v
}

// Remember is when each finding was first seen, from what was remembered before and a new verdict.
func Remember(before map[string]time.Time, v Verdict, now time.Time) map[string]time.Time {
	since := map[string]time.Time{}
	for _, f := range v.Findings {
		if since[f.key] = before[f.key]; since[f.key].IsZero() {
			since[f.key] = now
		}
	}
	return since
}

// visitors is the sentence about them.
func (v *Verdict) visitors(s *Snapshot) string {
	counted := func(r Responses) string {
		return fmt.Sprintf("%s in %s", count(r.Errors, "error"), count(r.All, "response"))
	}
	var unservable []string
	for _, f := range v.Findings {
		if f.Kind == "unservable" {
			unservable = append(unservable, f.About...)
		}
	}
	switch {
	case len(unservable) > 0:
		return "Visitors get errors for the " + names(unservable) + "."
	case v.has("certificate-expired"):
		return "Visitors get errors: the TLS certificate has expired."
	case v.has("connections"):
		return "Visitors get errors: the limit of connections is reached."
	case s.Recent.Errors > 0:
		return "Visitors got errors within the last minute: " + counted(s.Recent) + "."
	case s.Total.All == 0:
		return "Visitors are not affected: no request yet."
	case s.Total.Errors > 0:
		return "Visitors are not affected now: " + counted(s.Total) + " since the start."
	}
	return "Visitors are not affected: " + counted(s.Total) + "."
}

// copies is the sentence about how long they last.
func (v *Verdict) copies(s *Snapshot) string {
	if v.CopiesUntil == nil {
		return "No copy is cached."
	}
	var cached []string
	for _, r := range shape.Resources() {
		if s.Documents[r].Held != nil {
			cached = append(cached, string(r))
		}
	}
	whose := "Copies last"
	if len(cached) < shape.Count {
		whose = "Copies of the " + names(cached) + " last"
	}
	return whose + " until " + Clock(*v.CopiesUntil, s.Now) + "."
}

// count is a number of things: "no error", "6,041 responses".
func count(n uint64, what string) string {
	switch n {
	case 0:
		return "no " + what
	case 1:
		return "1 " + what
	}
	return humanize.Comma(int64(n)) + " " + what + "s" //nolint:gosec // a count
}
