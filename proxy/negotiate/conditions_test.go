package negotiate

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// The representation that the conditions below are about.
var (
	tagX         = `"x"`
	modifiedAt   = time.Date(1994, time.November, 6, 8, 49, 37, 0, time.UTC)
	modifiedText = "Sun, 06 Nov 1994 08:49:37 GMT"
	conditionNow = time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC)
)

func TestConditionsRFC9110Section13(t *testing.T) {
	const before, after = "Sun, 06 Nov 1994 08:49:36 GMT", "Sun, 06 Nov 1994 08:49:38 GMT"
	for _, tc := range []struct {
		name              string
		im, ius, inm, ims string
		want              Verdict
	}{
		{name: "no condition", want: Proceed},

		{name: "13.1.2 If-None-Match matches", inm: `"x"`, want: NotModified},
		{name: "13.1.2 If-None-Match does not match", inm: `"y"`, want: Proceed},
		{name: "13.1.2 weak comparison", inm: `W/"x"`, want: NotModified},
		{name: "13.1.2 list", inm: `"a", W/"b","x"`, want: NotModified},
		{name: "13.1.2 list without it", inm: `"a", "b"`, want: Proceed},
		{name: "5.6.1 empty elements", inm: `, ,"x" ,`, want: NotModified},
		{name: "13.1.2 asterisk", inm: `*`, want: NotModified},
		{name: "13.1.2 asterisk with blanks", inm: ` * `, want: NotModified},
		{name: "13.1.2 asterisk is not an element", inm: `"a", *`, want: Proceed},
		{name: "8.8.3 a comma within a tag", inm: `"a,b", "x"`, want: NotModified},
		{name: "8.8.3 a tag within a tag", inm: `"a\"x"`, want: Proceed},
		{name: "8.8.3 a tag without quotes", inm: `x`, want: Proceed},
		{name: "8.8.3 the weakness is in upper case", inm: `w/"x"`, want: Proceed},
		{name: "8.8.3 a blank within a tag", inm: `"a b", "x"`, want: Proceed},
		{name: "8.8.3 an unfinished tag", inm: `"x`, want: Proceed},
		{name: "8.8.3.2 case matters", inm: `"X"`, want: Proceed},

		{name: "13.1.3 If-Modified-Since the same", ims: modifiedText, want: NotModified},
		{name: "13.1.3 If-Modified-Since later", ims: after, want: NotModified},
		{name: "13.1.3 If-Modified-Since earlier", ims: before, want: Proceed},
		{name: "13.1.3 invalid date", ims: "yesterday", want: Proceed},
		{name: "5.6.7 RFC 850 date", ims: "Sunday, 06-Nov-94 08:49:37 GMT", want: NotModified},
		{name: "5.6.7 RFC 850 date, earlier", ims: "Sunday, 06-Nov-94 08:49:36 GMT", want: Proceed},
		{name: "5.6.7 RFC 850 date, two digits less than 50 years ahead", ims: "Monday, 06-Nov-72 08:49:37 GMT", want: NotModified},
		{name: "5.6.7 asctime date", ims: "Sun Nov  6 08:49:37 1994", want: NotModified},
		{name: "5.6.7 asctime date, earlier", ims: "Sun Nov  6 08:49:36 1994", want: Proceed},

		{name: "13.2.2 If-None-Match goes before If-Modified-Since", inm: `"y"`, ims: after, want: Proceed},
		{name: "13.2.2 and where it matches too", inm: `"x"`, ims: before, want: NotModified},

		{name: "13.1.1 If-Match matches", im: `"a", "x"`, want: Proceed},
		{name: "13.1.1 If-Match does not match", im: `"a"`, want: Failed},
		{name: "13.1.1 strong comparison", im: `W/"x"`, want: Failed},
		{name: "13.1.1 asterisk", im: `*`, want: Proceed},
		{name: "13.1.4 If-Unmodified-Since the same", ius: modifiedText, want: Proceed},
		{name: "13.1.4 If-Unmodified-Since earlier", ius: before, want: Failed},
		{name: "13.1.4 invalid date", ius: "yesterday", want: Proceed},
		{name: "13.2.2 If-Match goes before If-Unmodified-Since", im: `"x"`, ius: before, want: Proceed},
		{name: "13.2.2 then If-None-Match", im: `"x"`, inm: `"x"`, want: NotModified},
		{name: "13.2.2 If-Match decides first", im: `"a"`, inm: `"x"`, want: Failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Conditions{IfMatch: optional(tc.im), IfUnmodifiedSince: optional(tc.ius), IfNoneMatch: optional(tc.inm), IfModifiedSince: optional(tc.ims)}
			if got := c.Evaluate([]byte(tagX), []byte(modifiedText), modifiedAt, conditionNow); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func optional(value string) []byte {
	if value == "" {
		return nil
	}
	return []byte(value)
}

// FuzzMatchesTag: what matches strongly matches weakly; a list in which the tag does not occur
// matches only as *; and another tag before a list changes nothing.
func FuzzMatchesTag(f *testing.F) {
	for _, s := range []string{"*", `"x"`, `W/"x"`, `"a", "x"`, `"a,b" , ,W/"x"`, `"`, `W/`, `"a`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		weak, strong := matchesTag([]byte(list), []byte(tagX), false), matchesTag([]byte(list), []byte(tagX), true)
		if strong && !weak {
			t.Errorf("%q matches strongly but not weakly", list)
		}
		if star := strings.Trim(list, " \t") == "*"; star {
			if !weak || !strong {
				t.Errorf("%q does not match", list)
			}
			return
		}
		if weak && !strings.Contains(list, tagX) {
			t.Errorf("%q matches %s", list, tagX)
		}
		if after := matchesTag([]byte(`"other", `+list), []byte(tagX), false); after != weak {
			t.Errorf("%q: %t, behind another tag %t", list, weak, after)
		}
	})
}

func FuzzParseDate(f *testing.F) {
	for _, s := range []string{
		"Thu, 29 Feb 2024 12:00:00 GMT", "Thursday, 29-Feb-24 12:00:00 GMT", "Thu Feb 29 12:00:00 2024", "Thu, 29 Feb 2023 12:00:00 GMT",
		"Sunday, 06-Nov-94 08:49:37 GMT", "yesterday", "0",
	} {
		f.Add([]byte(s))
	}
	now := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value []byte) {
		at, ok := parseDate(value, now)
		if !ok {
			return
		}
		if at.Nanosecond() != 0 {
			t.Fatalf("%q is %v", value, at)
		}
		if at.Year() < 0 || at.Year() > 9999 {
			return // no HTTP-date, but a time
		}
		if again, ok := parseDate([]byte(at.UTC().Format(http.TimeFormat)), now); !ok || !again.Equal(at) {
			t.Fatalf("%q is %v, which is %v", value, at, again)
		}
	})
}
