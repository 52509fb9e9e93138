package negotiate

import (
	"strings"
	"testing"
)

func TestAcceptIsReadAsTheCMSReadsIt(t *testing.T) {
	for _, tc := range []struct {
		value  string
		indent int
		ok     bool
	}{
		{"*/*", noIndent, true},
		{"application/json", noIndent, true},
		{"Application/JSON; Indent=4", 4, true},
		{"application/*;indent=2", 2, true},
		{"*/json", noIndent, true},
		{"text/*", noIndent, true},
		{"text/html;indent=4", noIndent, true},
		{"application/json;q=0", noIndent, true},
		{"application/json;indent=99", 8, true},
		{"application/json;indent=-1", 0, true},
		{"application/json;indent=+08", 8, true},
		{"application/json;indent=0", 0, true},
		{"application/json;indent=four", noIndent, true},
		{"application/json;indent=", noIndent, true},
		{`application/json;indent="3"`, 3, true},
		{`application/json;x="a;indent=3"`, noIndent, true},
		{"application/json;indent", noIndent, true},
		// The most specific range that allows anything wins, wherever it stands.
		{"*/*;indent=2, application/json", noIndent, true},
		{"application/json, */*;indent=2", noIndent, true},
		{"text/html, application/json;indent=4", 4, true},
		{"text/html;level=1, application/json", noIndent, true},
		{"application/xml;indent=2, application/json;indent=6", 6, true},
		{"application/json;indent=1, application/json;indent=2", 1, true},
		{"", noIndent, false},
		{"*", noIndent, false},
		{"garbage", noIndent, false},
		{"application/xml", noIndent, false},
		{"application/jsonp", noIndent, false},
		{"application/xhtml+xml, image/*", noIndent, false},
		{",,", noIndent, false},
	} {
		indent, ok := parseAccept([]byte(tc.value))
		if indent != tc.indent || ok != tc.ok {
			t.Errorf("%q: indent %d, %t; want %d, %t", tc.value, indent, ok, tc.indent, tc.ok)
		}
	}
}

// FuzzParseAccept: an indentation is within its bounds, a range that allows everything makes any
// list acceptable, and a list is acceptable exactly if one of its elements is.
func FuzzParseAccept(f *testing.F) {
	for _, s := range []string{"*/*", "text/html, application/json;indent=4", `application/json;a="b;c";indent=2`, ";;=,", "*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		indent, ok := parseAccept([]byte(value))
		if indent < noIndent || indent > MaxIndent || !ok && indent != noIndent {
			t.Errorf("%q: indent %d, %t", value, indent, ok)
		}
		if _, ok := parseAccept([]byte(value + ", */*")); !ok {
			t.Errorf("%q with */* is not acceptable", value)
		}
		one := false
		for element := range strings.SplitSeq(value, ",") {
			_, ok := parseAccept([]byte(element))
			one = one || ok
		}
		if one != ok {
			t.Errorf("%q: acceptable %t, its elements %t", value, ok, one)
		}
	})
}
