package proxy

import (
	"strconv"
	"time"
)

// A policy says how long caches downstream may keep an answer.
type policy struct {
	browsers, cdns keeping
	// staleIfError is for how long past its freshness here a kept answer may be given while vitrine fails.
	staleIfError time.Duration
}

// keeping is how long one kind of cache may keep an answer.
type keeping struct {
	// maxAge is for how long without asking.
	maxAge time.Duration
	// staleWhileRevalidate is for how much longer while it asks.
	staleWhileRevalidate time.Duration
}

// newPolicy makes the policy of the options.
//
// An answer that is served while it is revalidated is served before anybody was asked. A browser, which nobody can
// purge, does that only where it may keep answers at all; a CDN, which can be purged by Cache-Groups, does it unless
// it is told not to.
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

// appendCacheControl renders Cache-Control, which CDNs that know no other field read too (RFC 9111, section 5.2.2).
func (p *policy) appendCacheControl(dst []byte, age, ttl int64) []byte {
	return p.append(dst, p.browsers, age, ttl)
}

// appendCDNCacheControl renders CDN-Cache-Control, which those that know it read instead (RFC 9213, section 2.2). It
// is a dictionary of structured fields; so, as it happens, is what append writes.
func (p *policy) appendCDNCacheControl(dst []byte, age, ttl int64) []byte {
	return p.append(dst, p.cdns, age, ttl)
}

// append says how long an answer may be kept, given its age and for how much longer it is fresh here, in seconds.
//
// It may be kept without asking for maxAge more, and then given while it is revalidated (RFC 5861, section 3), but
// neither past its freshness here. Since a cache counts max-age from when the document was made, not from now, the
// age is added; with nothing left it is 0. To give it because vitrine itself fails (RFC 5861, section 4) is another
// matter: that ends when vitrine would give it no more either.
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

// wholeSeconds rounds down, negative durations too, so that neither an age nor what is left is overstated.
func wholeSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second < 0 {
		s--
	}
	return s
}
