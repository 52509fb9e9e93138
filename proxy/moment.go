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
	if m.modified.After(now) { // Redis's clock is ahead (RFC 9110, section 8.8.2.1)
		m.modified = now.UTC().Truncate(time.Second).Add(-time.Second) // fasthttp's Date may be a second old
	}
	const first = "Last-Modified: "
	b := append(make([]byte, 0, 384), first...)
	b = m.modified.AppendFormat(b, http.TimeFormat)
	m.lastModified = b[len(first):]
	b = append(b, "\r\nAge: "...)
	b = strconv.AppendInt(b, age, 10)
	b = append(b, "\r\nCache-Control: "...)
	b = t.browsers.append(b, age, ttl)
	b = t.cdns.appendShared(b, &t.browsers, age, ttl)
	b = append(b, "\r\nCDN-Cache-Control: "...)
	b = t.cdns.append(b, age, ttl)
	b = append(b, "\r\nCache-Status: "...)
	before := len(b)
	b = appendCacheStatus(b, status, ttl)
	m.cacheStatus = b[before:]
	m.lines = append(b, "\r\nETag: "...)
	return m
}

const cacheStatus = "Cache-Status"

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
