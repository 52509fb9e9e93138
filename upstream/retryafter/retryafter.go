// Package retryafter reads the time that a server asks for before the next request (RFC 9110,
// section 10.2.3).
package retryafter

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Field is a field in which a server says the same as with Retry-After.
type Field struct {
	Name string
	// Unit is one of the constants below; empty means Seconds.
	Unit string
}

// The units of a [Field].
const (
	Seconds      = "seconds"
	Milliseconds = "milliseconds"
	Time         = "time" // seconds or milliseconds since 1970, or a date as in HTTP or in RFC 3339
)

// Of is the Retry-After of a 429 or 503, at most longest: what it asks for in seconds, or by a
// date, which is relative to the response's own Date, so that the server's clock may be wrong. It
// is 0 for any other response, and for a value that is missing, unreadable or past; then the
// server's own field counts, if it has one.
func Of(resp *http.Response, longest time.Duration, own Field) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	after := read(resp, Field{Name: "Retry-After"}, longest)
	if after == 0 && own.Name != "" {
		after = read(resp, own, longest)
	}
	return after
}

// units are those of a number.
var units = map[string]time.Duration{"": time.Second, Seconds: time.Second, Milliseconds: time.Millisecond}

func read(resp *http.Response, f Field, longest time.Duration) time.Duration {
	value := strings.TrimSpace(resp.Header.Get(f.Name))
	when, err := http.ParseTime(value)
	if err != nil {
		when, err = time.Parse(time.RFC3339, value)
	}
	if value != "" && strings.Trim(value, "0123456789") == "" {
		n, tooLarge := strconv.ParseInt(value, 10, 64)
		unit := units[f.Unit]
		switch {
		case unit > 0 && (tooLarge != nil || n > int64(longest/unit)):
			return longest
		case unit > 0:
			return time.Duration(n) * unit
		case n > 1e11:
			n /= 1000
		}
		when, err = time.Unix(n, 0), tooLarge
	}
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(when.Sub(now), 0), longest)
}
