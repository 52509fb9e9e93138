package negotiate

import (
	"net/url"
	"strings"
	"testing"
)

func TestTheLastOfARepeatedParameterCounts(t *testing.T) {
	for _, tc := range []struct{ raw, format, ordering string }{
		{"", "", ""},
		{"format=api", "api", ""},
		{"ordering=a&format=json&ordering=b", "json", "b"},
		{"ordering=a&ordering=", "", ""},
		{"ordering=a&ordering", "", ""},
		{"%6frdering=a", "", "a"},
		{"%6Frderin%67=a+b%2C", "", "a b,"},
		{"ordering%=a&ordering%zz=b&%6=c", "", ""},
		{"ordering=%zz%4", "", "%zz%4"},
		{"ordering=a;format=xml", "", "a;format=xml"},
		{"ordering=a=b", "", "a=b"},
		{"&&ordering=a&", "", "a"},
		{"Ordering=a&orderings=b&rdering=c&=d", "", ""},
	} {
		q := ParseQuery([]byte(tc.raw))
		if got := string(appendDecoded(nil, q.Format)); got != tc.format {
			t.Errorf("%q: format %q, want %q", tc.raw, got, tc.format)
		}
		if got := string(appendDecoded(nil, q.Ordering)); got != tc.ordering {
			t.Errorf("%q: ordering %q, want %q", tc.raw, got, tc.ordering)
		}
	}
}

// FuzzParseQuery: where net/url can read a query string, both read the same out of it.
func FuzzParseQuery(f *testing.F) {
	for _, s := range []string{"", "format=api&ordering=-id", "%6frdering=%2Did&x=%C3%A9", "a&&=&ordering=+", "ordering=a&ordering="} {
		f.Add(s)
	}
	last := func(values []string) string {
		if len(values) == 0 {
			return ""
		}
		return values[len(values)-1]
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q := ParseQuery([]byte(raw))
		want, err := url.ParseQuery(raw)
		if err != nil || strings.Contains(raw, ";") {
			return
		}
		if got, want := string(appendDecoded(nil, q.Format)), last(want["format"]); got != want {
			t.Errorf("%q: format %q, want %q", raw, got, want)
		}
		if got, want := string(appendDecoded(nil, q.Ordering)), last(want["ordering"]); got != want {
			t.Errorf("%q: ordering %q, want %q", raw, got, want)
		}
	})
}
