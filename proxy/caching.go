package proxy

import (
	"strconv"
	"time"
)

// A policy is how long downstream caches can keep an answer.
type policy struct {
	browsers, cdns keeping
	// staleIfError is how long past its freshness a stored answer can be served while vitrine
	// fails.
	staleIfError time.Duration
}

// keeping is how long one kind of cache can keep an answer.
type keeping struct {
	// maxAge is how long without revalidating.
	maxAge time.Duration
	// staleWhileRevalidate is how much longer while revalidating.
	staleWhileRevalidate time.Duration
}

// newPolicy makes the policy of the options.
//
// With stale-while-revalidate an answer outlives a purge by one response. A browser, which nobody
// can purge, does that only if it can keep answers at all; a CDN, which can be purged by
// Cache-Groups, does it by default.
func newPolicy(o *Options) policy {
	p := policy{
		browsers:     keeping{maxAge: o.MaxAge, staleWhileRevalidate: o.StaleWhileRevalidate},
		cdns:         keeping{maxAge: o.CDNMaxAge, staleWhileRevalidate: o.CDNStaleWhileRevalidate},
		staleIfError: o.StaleIfError,
	}
	if p.browsers.maxAge < time.Second {
		p.browsers.staleWhileRevalidate = 0
	}
	return p
}

// appendCacheControl renders Cache-Control, for browsers, and CDNs without a field of their own
// (RFC 9111, section 5.2.2).
func (p *policy) appendCacheControl(dst []byte, age, ttl int64) []byte {
	return p.append(dst, p.browsers, age, ttl)
}

// appendCDNCacheControl renders CDN-Cache-Control, for CDNs that support it (RFC 9213, section
// 2.2). It is a dictionary of structured fields, and so is the output of append.
func (p *policy) appendCDNCacheControl(dst []byte, age, ttl int64) []byte {
	return p.append(dst, p.cdns, age, ttl)
}

// append renders the directives for an answer with the given age and remaining freshness, in
// seconds.
//
// The answer can be kept for maxAge without revalidating, and then served while it is revalidated
// (RFC 5861, section 3), both within its freshness. Since a cache counts max-age from the Date less
// the Age, the age is added; with no freshness left it is 0. Serving it because vitrine itself
// fails (RFC 5861, section 4) ends when vitrine would not serve it either.
func (p *policy) append(dst []byte, k keeping, age, ttl int64) []byte {
	keep := max(0, min(wholeSeconds(k.maxAge), ttl))
	dst = append(dst, "public, max-age="...)
	if keep == 0 {
		dst = append(dst, '0')
	} else {
		dst = strconv.AppendInt(dst, age+keep, 10)
	}
	if s := min(wholeSeconds(k.staleWhileRevalidate), ttl-keep); s > 0 {
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
