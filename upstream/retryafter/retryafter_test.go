package retryafter

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

const longest = 24 * time.Hour

// of is the Retry-After of a response without a body.
func of(status int, value, date string) time.Duration {
	return Of(&http.Response{StatusCode: status, Header: http.Header{"Retry-After": {value}, "Date": {date}}}, longest, Field{})
}

func TestRetryAfterIsReadAsSecondsOrDate(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	at := func(after time.Duration) string { return now.Add(after).Format(http.TimeFormat) }
	date, slow := at(0), at(-3*time.Hour)
	for _, c := range []struct {
		value, date string
		want        time.Duration
	}{
		{"120", "", 2 * time.Minute},
		{" 7 ", "", 7 * time.Second},
		{"0", "", 0},
		{"", "", 0},
		{"-5", "", 0},
		{"1.5", "", 0},
		{"5m", "", 0},
		{"5 m", "", 0},
		{"soon", "", 0},
		{"86401", "", longest},
		{"99999999999999999999999999", "", longest},
		{at(time.Minute), date, time.Minute},
		{at(-time.Minute), date, 0},
		{at(1000 * time.Hour), date, longest},
		{at(time.Minute - 3*time.Hour), slow, time.Minute},
		{now.Add(time.Minute).Format(time.RFC850), date, time.Minute},
	} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			if got := of(status, c.value, c.date); got != c.want {
				t.Errorf("%q at %q: %v, want %v", c.value, c.date, got, c.want)
			}
		}
	}
	for _, date := range []string{"", "yesterday"} {
		if got := of(429, at(time.Minute), date); got < 30*time.Second || got > time.Minute {
			t.Errorf("Date %q: %v, want a minute from now", date, got)
		}
	}
	for _, status := range []int{200, 301, 500, 502} {
		if got := of(status, "120", ""); got != 0 {
			t.Errorf("status %d: %v", status, got)
		}
	}
}

func TestAServersOwnFieldCountsWithoutRetryAfter(t *testing.T) {
	at := time.Now().Add(time.Minute)
	for _, c := range []struct {
		unit, value, standard string
		want                  time.Duration
	}{
		{"", "60", "", time.Minute},
		{Seconds, "60", "7", 7 * time.Second},
		{Seconds, "60", "soon", time.Minute},
		{Milliseconds, "1500", "", 1500 * time.Millisecond},
		{Milliseconds, "99999999999999999999", "", longest},
		{Time, strconv.FormatInt(at.Unix(), 10), "", time.Minute},
		{Time, strconv.FormatInt(at.UnixMilli(), 10), "", time.Minute},
		{Time, at.UTC().Format(http.TimeFormat), "", time.Minute},
		{Time, at.Format(time.RFC3339), "", time.Minute},
		{Time, "99999999999999999999", "", 0},
		{Time, "0", "", 0},
	} {
		h := http.Header{"X-Reset": {c.value}, "Retry-After": {c.standard}}
		got := Of(&http.Response{StatusCode: 429, Header: h}, longest, Field{"X-Reset", c.unit})
		if got > c.want || got < c.want-2*time.Second {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "-1", "Fri, 31 Dec 1999 23:59:59 GMT", "Friday, 31-Dec-99 23:59:59 GMT", "１２", "1e9", "0x10", "5m"} {
		f.Add(s, "Sat, 21 Nov 2026 00:37:57 GMT")
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		got := of(http.StatusTooManyRequests, value, date)
		if got < 0 || got > longest {
			t.Errorf("%q at %q: %v, want 0 to %v", value, date, got, longest)
		}
	})
}
