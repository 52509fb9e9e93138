package proxy

import (
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
		want              verdict
	}{
		{name: "no condition", want: proceed},

		{name: "13.1.2 If-None-Match matches", inm: `"x"`, want: notModified},
		{name: "13.1.2 If-None-Match does not match", inm: `"y"`, want: proceed},
		{name: "13.1.2 weak comparison", inm: `W/"x"`, want: notModified},
		{name: "13.1.2 list", inm: `"a", W/"b","x"`, want: notModified},
		{name: "13.1.2 list without it", inm: `"a", "b"`, want: proceed},
		{name: "5.6.1 empty elements", inm: `, ,"x" ,`, want: notModified},
		{name: "13.1.2 asterisk", inm: `*`, want: notModified},
		{name: "13.1.2 asterisk with blanks", inm: ` * `, want: notModified},
		{name: "13.1.2 asterisk is not an element", inm: `"a", *`, want: proceed},
		{name: "8.8.3 a comma within a tag", inm: `"a,b", "x"`, want: notModified},
		{name: "8.8.3 a tag within a tag", inm: `"a\"x"`, want: proceed},
		{name: "8.8.3 a tag without quotes", inm: `x`, want: proceed},
		{name: "8.8.3 the weakness is in upper case", inm: `w/"x"`, want: proceed},
		{name: "8.8.3 a blank within a tag", inm: `"a b", "x"`, want: proceed},
		{name: "8.8.3 an unfinished tag", inm: `"x`, want: proceed},
		{name: "8.8.3.2 case matters", inm: `"X"`, want: proceed},

		{name: "13.1.3 If-Modified-Since the same", ims: modifiedText, want: notModified},
		{name: "13.1.3 If-Modified-Since later", ims: after, want: notModified},
		{name: "13.1.3 If-Modified-Since earlier", ims: before, want: proceed},
		{name: "13.1.3 invalid date", ims: "yesterday", want: proceed},
		{name: "5.6.7 RFC 850 date", ims: "Sunday, 06-Nov-94 08:49:37 GMT", want: notModified},
		{name: "5.6.7 RFC 850 date, earlier", ims: "Sunday, 06-Nov-94 08:49:36 GMT", want: proceed},
		{name: "5.6.7 RFC 850 date, two digits less than 50 years ahead", ims: "Monday, 06-Nov-72 08:49:37 GMT", want: notModified},
		{name: "5.6.7 asctime date", ims: "Sun Nov  6 08:49:37 1994", want: notModified},
		{name: "5.6.7 asctime date, earlier", ims: "Sun Nov  6 08:49:36 1994", want: proceed},

		{name: "13.2.2 If-None-Match goes before If-Modified-Since", inm: `"y"`, ims: after, want: proceed},
		{name: "13.2.2 and where it matches too", inm: `"x"`, ims: before, want: notModified},

		{name: "13.1.1 If-Match matches", im: `"a", "x"`, want: proceed},
		{name: "13.1.1 If-Match does not match", im: `"a"`, want: failed},
		{name: "13.1.1 strong comparison", im: `W/"x"`, want: failed},
		{name: "13.1.1 asterisk", im: `*`, want: proceed},
		{name: "13.1.4 If-Unmodified-Since the same", ius: modifiedText, want: proceed},
		{name: "13.1.4 If-Unmodified-Since earlier", ius: before, want: failed},
		{name: "13.1.4 invalid date", ius: "yesterday", want: proceed},
		{name: "13.2.2 If-Match goes before If-Unmodified-Since", im: `"x"`, ius: before, want: proceed},
		{name: "13.2.2 then If-None-Match", im: `"x"`, inm: `"x"`, want: notModified},
		{name: "13.2.2 If-Match decides first", im: `"a"`, inm: `"x"`, want: failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := request{ifMatch: optional(tc.im), ifUnmodifiedSince: optional(tc.ius), ifNoneMatch: optional(tc.inm), ifModifiedSince: optional(tc.ims)}
			if got := c.evaluate([]byte(tagX), []byte(modifiedText), modifiedAt, conditionNow); got != tc.want {
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

// FuzzMatchesTag: what matches strongly matches weakly; a list in which the tag does not occur matches only as *;
// and another tag before a list changes nothing.
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
