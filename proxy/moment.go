package proxy

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"vitrine/cache"
)

// A moment has the header lines that change with time, rendered once a second and shared by all
// requests of that second with the same kind of answer. If a second of the document's freshness
// ends within it there are two, since a cache would otherwise keep the document past its freshness.
type moment struct {
	// Its inputs.
	document *cache.Document
	second   int64
	until    time.Time // when less freshness is left than it says
	status   cache.Status

	modified     time.Time // whole seconds
	lastModified []byte    // within lines, as the next
	cacheStatus  []byte
	lines        []byte // from Last-Modified to Cache-Status, and the name of the field after them, which is ETag
}

// moments has the last moment of a resource.
type moments struct{ last atomic.Pointer[moment] }

// at returns the moment for an answer, and renders it if the last one was for another time,
// document or status.
func (r *moments) at(t *terms, d *cache.Document, status *cache.Status, now time.Time) *moment {
	m := r.last.Load()
	if m != nil && m.second == now.Unix() && !now.After(m.until) && m.document == d && m.status == *status {
		return m
	}
	m = newMoment(t, d, status, now)
	r.last.Store(m)
	return m
}

func newMoment(t *terms, d *cache.Document, status *cache.Status, now time.Time) *moment {
	age := max(0, wholeSeconds(now.Sub(d.FetchedAt)))
	ttl := wholeSeconds(d.FreshUntil.Sub(now))
	m := &moment{
		document: d, second: now.Unix(), status: *status,
		until:    d.FreshUntil.Add(-time.Duration(ttl) * time.Second),
		modified: d.ChangedAt.UTC().Truncate(time.Second),
	}
	const first = "Last-Modified: "
	b := append(make([]byte, 0, 384), first...)
	b = m.modified.AppendFormat(b, http.TimeFormat)
	m.lastModified = b[len(first):]
	b = append(b, "\r\nAge: "...)
	b = strconv.AppendInt(b, age, 10)
	b = append(b, "\r\nCache-Control: "...)
	b = t.browsers.append(b, age, ttl)
	b = append(b, "\r\nCDN-Cache-Control: "...)
	b = t.cdns.append(b, age, ttl)
	b = append(b, "\r\nCache-Status: "...)
	before := len(b)
	b = appendCacheStatus(b, status, ttl)
	m.cacheStatus = b[before:]
	m.lines = append(b, "\r\nETag: "...)
	return m
}

// appendCacheStatus renders RFC 9211's field: vitrine; hit; ttl=42, or vitrine; fwd=miss;
// fwd-status=200; stored. The usual detail, a hit in this process's memory, is omitted.
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

// A policy is how long one kind of cache can keep an answer; zero means not at all.
type policy struct{ maxAge, staleWhileRevalidate, staleIfError time.Duration }

// policies are those for browsers, and caches without a field of their own (RFC 9111, section
// 5.2.2), and for CDNs that support CDN-Cache-Control (RFC 9213, section 2.2).
//
// With stale-while-revalidate an answer outlives a purge by one response. A browser, which nobody
// can purge, does that only if it can keep answers at all; a CDN, which can be purged by
// Cache-Groups, does it by default.
func policies(o *Options) (browsers, cdns policy) {
	browsers = policy{o.MaxAge, o.StaleWhileRevalidate, o.StaleIfError}
	if o.MaxAge < time.Second {
		browsers.staleWhileRevalidate = 0
	}
	return browsers, policy{o.CDNMaxAge, o.CDNStaleWhileRevalidate, o.StaleIfError}
}

// append renders the directives for an answer with the given age and remaining freshness, in
// seconds.
//
// The answer can be kept for maxAge without revalidating, and then served while it is revalidated
// (RFC 5861, section 3), both within its freshness. Since a cache counts max-age from the Date less
// the Age, the age is added; with no freshness left it is 0. Serving it because vitrine itself
// fails (RFC 5861, section 4) ends when vitrine would not serve it either.
func (p *policy) append(dst []byte, age, ttl int64) []byte {
	keep := max(0, min(wholeSeconds(p.maxAge), ttl))
	dst = append(dst, "public, max-age="...)
	if keep == 0 {
		dst = append(dst, '0')
	} else {
		dst = strconv.AppendInt(dst, age+keep, 10)
	}
	if s := min(wholeSeconds(p.staleWhileRevalidate), ttl-keep); s > 0 {
		dst = append(dst, ", stale-while-revalidate="...)
		dst = strconv.AppendInt(dst, s, 10)
	}
	if s := wholeSeconds(p.staleIfError) + min(0, ttl); s > 0 && p.staleIfError > 0 {
		dst = append(dst, ", stale-if-error="...)
		dst = strconv.AppendInt(dst, s, 10)
	}
	return dst
}

// wholeSeconds rounds down, including negative durations, so that neither an age nor the remaining
// freshness is overstated.
func wholeSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second < 0 {
		s--
	}
	return s
}
