// Package retryafter reads the time that a server asks for before the next request (RFC 9110,
// section 10.2.3).
package retryafter

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Of is the Retry-After of a 429 or 503, at most longest: what it asks for in seconds, or by a
// date, which is relative to the response's own Date, so that the server's clock may be wrong. It
// is 0 for any other response, and for a value that is missing, unreadable or past.
func Of(resp *http.Response, longest time.Duration) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	value := strings.TrimSpace(resp.Header.Get("Retry-After"))
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(longest/time.Second) {
			return longest
		}
		return time.Duration(seconds) * time.Second
	}
	when, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(when.Sub(now), 0), longest)
}
