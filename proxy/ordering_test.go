package proxy

import (
	"net/url"
	"strings"
	"testing"

	"vitrine/upstream/shape"
)

// String writes an ordering as a client would.
func (o *ordering) String() string {
	terms := make([]string, 0, o.n)
	for _, t := range o.terms[:o.n] {
		name := orderingFields[t/2]
		if t%2 == 1 {
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
		o := parseOrdering([]byte(url.QueryEscape(value)))
		if got := o.String(); got != want {
			t.Errorf("%.40q: %q, want %q", value, got, want)
		}
	}
}

func TestEveryDocumentedFieldCanBeOrderedBy(t *testing.T) {
	names := shape.BannerFields()
	if len(names) != shape.BannerFieldCount {
		t.Fatalf("%d fields, want %d", len(names), shape.BannerFieldCount)
	}
	// Each field by itself tells two banners apart that differ in nothing else, so none compares another's field.
	zero := shape.Banner{}
	for i, differing := range []shape.Banner{
		{ID: 1}, {TitleEN: "a"}, {TitleNL: "a"}, {TitleFR: "a"}, {ButtonTextEN: "a"}, {ButtonTextNL: "a"}, {ButtonTextFR: "a"},
		{RedirectLinkEN: "a"}, {RedirectLinkNL: "a"}, {RedirectLinkFR: "a"}, {LanguageEN: true}, {LanguageNL: true}, {LanguageFR: true},
		{CreatedAt: "a"}, {UpdatedAt: "a"},
	} {
		for j, name := range names {
			want := 0
			if i == j {
				want = -1
			}
			if got := zero.Compare(&differing, j); got != want {
				t.Errorf("%s: banners that differ in %s compare %d, want %d", name, names[i], got, want)
			}
		}
	}
}

func TestOrderingOfTheEmptyListIsTheEmptyList(t *testing.T) {
	o := parseOrdering([]byte("-id"))
	if got := string(shape.AppendBanners(nil, o.apply(nil))); got != "[]" {
		t.Errorf("%s", got)
	}
}

// FuzzParseOrdering: no field occurs twice, what comes out is a fixed point, and applying it gives the same banners,
// each no greater than the next, equal ones in the order they had.
func FuzzParseOrdering(f *testing.F) {
	for _, s := range []string{"", "-redirect_link_fr", "language_en,-id", "%20id%2C-title_nl", "+-id", "%zz,%C2%A0id", "id,-id"} {
		f.Add(s)
	}
	d := readRecorded(f, "edge-singlebanner")
	banners, err := shape.DecodeBanners(d.body)
	if err != nil {
		f.Fatal(err)
	}
	place := map[int64]int{}
	for i := range banners {
		place[banners[i].ID] = i
	}
	f.Fuzz(func(t *testing.T, encoded string) {
		o := parseOrdering([]byte(encoded))
		var seen [shape.BannerFieldCount]bool
		for _, term := range o.terms[:o.n] {
			if seen[term/2] {
				t.Fatalf("%q: %s holds a field twice", encoded, o.String())
			}
			seen[term/2] = true
		}
		if again := parseOrdering([]byte(o.String())); again != o {
			t.Fatalf("%q: %q becomes %q", encoded, o.String(), again.String())
		}
		sorted := o.apply(banners)
		if len(sorted) != len(banners) {
			t.Fatalf("%d banners, want %d", len(sorted), len(banners))
		}
		for i := 1; i < len(sorted); i++ {
			a, b := &sorted[i-1], &sorted[i]
			c := 0
			for _, term := range o.terms[:o.n] {
				if c = term.compare(a, b); c != 0 {
					break
				}
			}
			if c > 0 || c == 0 && place[a.ID] >= place[b.ID] {
				t.Fatalf("%q: banner %d stands before %d", encoded, a.ID, b.ID)
			}
		}
	})
}
