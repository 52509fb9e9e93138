package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"vitrine/cache"
	"vitrine/proxy/negotiate"
	"vitrine/upstream/shape"
)

// A moment has the headers of answers with a document, each rendered once a second at most and
// shared by all requests of that second with the same kind of answer. If a second of the document's
// freshness ends within it there are two, since a cache would otherwise keep the document past its
// freshness.
type moment struct {
	// Its inputs.
	document *cache.Document
	second   int64
	until    time.Time // when less freshness is left than it says
	status   cache.Status

	modified     time.Time // whole seconds
	lastModified []byte
	changing     headerFields // that change with time
	headers      [negotiate.Failed][noCodings + 1]atomic.Pointer[fasthttp.ResponseHeader]
}

// header is that of an answer of r in this moment, for all to copy, without its entity-tag.
func (m *moment) header(t *terms, r shape.Resource, verdict negotiate.Verdict, coding negotiate.Encoding) *fasthttp.ResponseHeader {
	made := &m.headers[verdict][coding]
	h := made.Load()
	if h == nil {
		h = new(fasthttp.ResponseHeader)
		t.setDocument(h, r, verdict, coding)
		m.changing.set(h)
		made.Store(h)
	}
	return h
}

// at returns the moment for an answer, and renders it if the last one was for another time,
// document or status.
func (r *route) at(t *terms, d *cache.Document, status *cache.Status, now time.Time) *moment {
	m := r.last.Load()
	if m != nil && m.second == now.Unix() && !now.After(m.until) && m.document == d && m.status == *status {
		return m
	}
	m = newMoment(t, d, status, now)
	r.last.Store(m)
	return m
}

func newMoment(t *terms, d *cache.Document, status *cache.Status, now time.Time) *moment {
	age := max(0, wholeSeconds(d.AgeAt(now)))
	ttl := wholeSeconds(d.FreshUntil.Sub(now))
	m := &moment{
		document: d, second: now.Unix(), status: *status,
		until:    d.FreshUntil.Add(-time.Duration(ttl) * time.Second),
		modified: d.ChangedAt.UTC().Truncate(time.Second),
	}
	if m.modified.After(now) { // Redis's clock is ahead (RFC 9110, section 8.8.2.1)
		m.modified = now.UTC().Truncate(time.Second).Add(-time.Second) // fasthttp's Date may be a second old
	}
	m.lastModified = m.modified.AppendFormat(nil, http.TimeFormat)
	m.changing = headerFields{
		[]byte(fiber.HeaderLastModified), m.lastModified,
		[]byte(fiber.HeaderAge), strconv.AppendInt(nil, age, 10),
		[]byte(fiber.HeaderCacheControl), t.cdns.appendShared(t.browsers.directives(age, ttl), &t.browsers, age, ttl),
		[]byte("CDN-Cache-Control"), t.cdns.directives(age, ttl),
		[]byte(cacheStatus), renderStatus(status, ttl),
	}
	return m
}

const cacheStatus = "Cache-Status"

// renderStatus renders RFC 9211's field: vitrine; hit; ttl=42, or vitrine; fwd=miss; fwd-status=200;
// stored. The usual detail, a hit in this process's memory, is omitted.
func renderStatus(s *cache.Status, ttl int64) []byte {
	b := fmt.Appendf(nil, "vitrine; hit; ttl=%d", ttl)
	if s.Fwd != "" {
		b = fmt.Appendf(nil, "vitrine; fwd=%s", s.Fwd)
		if s.FwdStatus != 0 {
			b = fmt.Appendf(b, "; fwd-status=%d", s.FwdStatus)
		}
		if s.Stored {
			b = append(b, "; stored"...)
		}
		if s.Collapsed {
			b = append(b, "; collapsed"...)
		}
	}
	if s.Detail != "" && s.Detail != cache.DetailMemory {
		b = fmt.Appendf(b, "; detail=%s", s.Detail)
	}
	return b
}
