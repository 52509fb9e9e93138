package proxy

import (
	"math"
	"strconv"
	"time"
)

// A policy is how long one kind of cache can keep an answer; zero means not at all.
type policy struct {
	maxAge, staleWhileRevalidate, staleIfError time.Duration
	// told says that the cache is notified of changes, and keeps a fresh answer for all of maxAge.
	told bool
}

// policies are those for browsers, and caches without a field of their own (RFC 9111, section
// 5.2.2), and for CDNs that support CDN-Cache-Control (RFC 9213, section 2.2).
//
// With stale-while-revalidate an answer outlives a purge by one response. A browser, which nobody
// can purge, does that only if it can keep answers at all; a CDN, which can be purged by
// Cache-Groups, does it by default.
func policies(o *Options) (browsers, cdns policy) {
	browsers = policy{maxAge: o.MaxAge, staleWhileRevalidate: o.StaleWhileRevalidate, staleIfError: o.StaleIfError}
	if o.MaxAge < time.Second {
		browsers.staleWhileRevalidate = 0
	}
	return browsers, policy{o.CDNMaxAge, o.CDNStaleWhileRevalidate, o.StaleIfError, o.CDNTold}
}

// directives renders those for an answer with the given age and remaining freshness, in
// seconds.
//
// The answer can be kept for maxAge without revalidating, and then served while it is revalidated
// (RFC 5861, section 3), both within its freshness, unless the cache is notified of changes. Since a
// cache counts max-age from the Date less the Age, the age is added; with no freshness left it is
// 0. Serving it because vitrine itself fails (RFC 5861, section 4) ends when vitrine would not
// serve it either.
func (p *policy) directives(age, ttl int64) []byte {
	keep := p.keep(ttl)
	dst := appendAge([]byte("public, max-age="), age, keep)
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

// keep is for how many seconds an answer with that freshness can be kept.
func (p *policy) keep(ttl int64) int64 {
	if p.told && ttl > 0 {
		return wholeSeconds(p.maxAge)
	}
	return max(0, min(wholeSeconds(p.maxAge), ttl))
}

// appendShared renders the directive for shared caches without a field of their own, where they can
// keep an answer for longer or shorter than browsers.
func (p *policy) appendShared(dst []byte, browsers *policy, age, ttl int64) []byte {
	keep := p.keep(ttl)
	if keep == browsers.keep(ttl) {
		return dst
	}
	return appendAge(append(dst, ", s-maxage="...), age, keep)
}

// appendAge renders an age until which an answer can be kept.
func appendAge(dst []byte, age, keep int64) []byte {
	if keep == 0 {
		return append(dst, '0')
	}
	return strconv.AppendInt(dst, age+keep, 10)
}

// wholeSeconds rounds down, including negative durations, so that neither an age nor the remaining
// freshness is overstated.
func wholeSeconds(d time.Duration) int64 {
	return int64(math.Floor(d.Seconds()))
}
