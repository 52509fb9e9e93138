package proxy

import (
	"net/http"
	"strconv"
	"time"

	"vitrine/cache"
)

// A moment is what the header says of a document in one second: fields that change with time, rendered once and
// shared by all requests of that second that were answered in the same way. Where a second of the document's freshness
// ends within it, there are two: who was told at its beginning what is left would keep a document past its freshness.
type moment struct {
	// What it was rendered for.
	document *cache.Document
	policy   *policy
	second   int64
	until    time.Time // from then on less freshness is left than it says
	status   cache.Status

	modified                      time.Time // whole seconds
	lastModified, age             []byte
	cacheControl, cdnCacheControl []byte
	cacheStatus                   []byte
}

// at returns the moment for an answer. It renders one only if the last was for another time, document or status.
func (p *Prepared) at(pol *policy, d *cache.Document, status *cache.Status, now time.Time) *moment {
	second := now.Unix()
	m := p.moment.Load()
	if m != nil && m.second == second && !now.After(m.until) && m.document == d && m.policy == pol && m.status == *status {
		return m
	}
	m = newMoment(pol, d, status, now)
	p.moment.Store(m)
	return m
}

func newMoment(pol *policy, d *cache.Document, status *cache.Status, now time.Time) *moment {
	modified := d.ChangedAt.UTC().Truncate(time.Second)
	age := max(0, wholeSeconds(now.Sub(d.FetchedAt)))
	ttl := wholeSeconds(d.FreshUntil.Sub(now))
	return &moment{
		document: d, policy: pol, second: now.Unix(), status: *status,
		until:           d.FreshUntil.Add(-time.Duration(ttl) * time.Second),
		modified:        modified,
		lastModified:    []byte(modified.Format(http.TimeFormat)),
		age:             strconv.AppendInt(nil, age, 10),
		cacheControl:    pol.appendCacheControl(nil, age, ttl),
		cdnCacheControl: pol.appendCDNCacheControl(nil, age, ttl),
		cacheStatus:     appendCacheStatus(nil, status, ttl),
	}
}

// wholeSeconds rounds down, negative durations too, so that neither an age nor what is left is overstated.
func wholeSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second < 0 {
		s--
	}
	return s
}

// appendCacheStatus renders RFC 9211's field: vitrine; hit; ttl=42, or vitrine; fwd=miss; fwd-status=200; stored.
// That a hit came from this process's memory is the ordinary case and not told.
func appendCacheStatus(dst []byte, s *cache.Status, ttl int64) []byte {
	dst = append(dst, "vitrine"...)
	if s.Fwd == "" {
		dst = append(dst, "; hit; ttl="...)
		dst = strconv.AppendInt(dst, ttl, 10)
	} else {
		dst = append(dst, "; fwd="...)
		dst = append(dst, s.Fwd...)
		if s.FwdStatus != 0 {
			dst = append(dst, "; fwd-status="...)
			dst = strconv.AppendInt(dst, int64(s.FwdStatus), 10)
		}
		if s.Stored {
			dst = append(dst, "; stored"...)
		}
		if s.Collapsed {
			dst = append(dst, "; collapsed"...)
		}
	}
	if s.Detail != "" && s.Detail != cache.DetailMemory {
		dst = append(dst, "; detail="...)
		dst = append(dst, s.Detail...)
	}
	return dst
}
