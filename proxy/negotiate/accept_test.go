package negotiate

import (
	"slices"
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

func TestAcceptEncodingRFC9110Section12_5_3(t *testing.T) {
	const br, zstd, gzip, identity = Brotli, Zstd, Gzip, Identity
	for _, tc := range []struct {
		value string
		want  Encoding
	}{
		{"", identity},
		{"identity", identity},
		{"gzip", gzip},
		{"GZIP", gzip},
		{"x-gzip", gzip},
		{"br", br},
		{"zstd", zstd},
		{"gzip, deflate, br, zstd", br},
		{"gzip, deflate, zstd", zstd},
		{"deflate, compress", identity},
		{"*", br},
		{"br;q=0, *", zstd},
		{"*;q=0.5, gzip", gzip},
		{"gzip;q=0.5", gzip},
		{"gzip;q=0.5, identity", identity},
		{"gzip;q=0.5, identity;q=0.5", gzip},
		{"br;q=0.1, gzip;q=0.9", gzip},
		{"br;q=0.899,zstd;q=0.9", zstd},
		{"gzip;q=0", identity},
		{"gzip;q=0.000, br;q=0.001", br},
		{"identity;q=0, gzip", gzip},
		{"identity;q=0, *;q=0.1", br},
		// Nothing that is offered is accepted: the answer is readable all the same.
		{"identity;q=0", identity},
		{"*;q=0", identity},
		// Elements outside of the grammar are skipped.
		{"gzip;q=1.5", identity},
		{"gzip;q=-1", identity},
		{"gzip;q=0.1234", identity},
		{"gzip;q=", identity},
		{"gzip;level=9", identity},
		{"gzip;q=1;x=y, zstd", zstd},
		{"gzip;q=nan, br ; q=0.2", br},
		{",, gzip ,", gzip},
		{"gzipp", identity},
	} {
		if got := ChooseEncoding([]byte(tc.value)); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.value, got.String(), tc.want.String())
		}
	}
}

// FuzzChooseEncoding: the order of the elements does not matter, no coding is chosen that is not
// named in some way, and what is forbidden is not made acceptable by more elements that forbid it.
func FuzzChooseEncoding(f *testing.F) {
	for _, s := range []string{"gzip, deflate, br", "br;q=0.1, *;q=0", "identity;q=0", ";q=,", "x-gzip;q=1.000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got := ChooseEncoding([]byte(value))
		elements := strings.Split(value, ",")
		slices.Reverse(elements)
		if reversed := ChooseEncoding([]byte(strings.Join(elements, ","))); reversed != got {
			t.Errorf("%q: %q, reversed %q", value, got.String(), reversed.String())
		}
		name := got.String()
		if lower := strings.ToLower(value); !strings.Contains(lower, name) && !strings.Contains(lower, "*") {
			t.Errorf("%q: %q was not asked for", value, name)
		}
		if again := ChooseEncoding([]byte(value + ", br;q=0, zstd;q=0, gzip;q=0, identity;q=0")); got == Identity && again != got {
			t.Errorf("%q: forbidding all chose %q", value, again.String())
		}
	})
}
