package negotiate

import (
	"net/url"
	"strings"
	"testing"

	"vitrine/upstream/shape"
)

func TestWhatIsNoEscapeIsItself(t *testing.T) {
	for _, tc := range []struct{ raw, format, ordering string }{
		{"ordering%=a&ordering%zz=b&%6=c", "", ""},
		{"ordering=%zz%4", "", "%zz%4"},
		{"ordering=a;format=xml", "", "a;format=xml"},
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
	for _, s := range []string{
		"", "format=api&ordering=-id", "%6frdering=%2Did&x=%C3%A9", "a&&=&ordering=+", "ordering=a&ordering=",
		"ordering=a&format=json&ordering=b", "ordering=a&ordering", "%6Frderin%67=a+b%2C", "ordering=a=b", "Ordering=a&orderings=b&rdering=c&=d",
	} {
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

// String writes an ordering as a client would.
func (o *Ordering) String() string {
	terms := make([]string, 0, o.n)
	for _, t := range o.Terms() {
		name := orderingFields[t.Field]
		if t.Descending {
			name = "-" + name
		}
		terms = append(terms, name)
	}
	return strings.Join(terms, ",")
}

func TestOrderingKeepsKnownTermsOnce(t *testing.T) {
	for value, want := range map[string]string{
		"":                                "",
		"-redirect_link_fr":               "-redirect_link_fr",
		"language_en,-id":                 "language_en,-id",
		"id,-id,title_en,id":              "id,title_en",
		"foo,-id,--id,-,- id,":            "-id",
		"ID,pk,created_at ":               "created_at",
		"\u3000-id\u00a0,\x1cid":          "-id",
		"\u200b-id":                       "",
		"-id;title_en":                    "",
		"%,%zz,id":                        "id",
		strings.Repeat("x,", 3000) + "id": "id",
	} {
		o := ParseOrdering([]byte(url.QueryEscape(value)))
		if got := o.String(); got != want {
			t.Errorf("%.40q: %q, want %q", value, got, want)
		}
	}
}

// FuzzParseOrdering: no field occurs twice, and what comes out is a fixed point.
func FuzzParseOrdering(f *testing.F) {
	for _, s := range []string{"", "-redirect_link_fr", "language_en,-id", "%20id%2C-title_nl", "+-id", "%zz,%C2%A0id", "id,-id"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, encoded string) {
		o := ParseOrdering([]byte(encoded))
		var seen [shape.BannerFieldCount]bool
		for _, term := range o.Terms() {
			if seen[term.Field] {
				t.Fatalf("%q: %s holds a field twice", encoded, o.String())
			}
			seen[term.Field] = true
		}
		if again := ParseOrdering([]byte(o.String())); again != o {
			t.Fatalf("%q: %q becomes %q", encoded, o.String(), again.String())
		}
	})
}
