package shape

import (
	"fmt"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
)

// many are n items of a list, each with the given fields after its id.
func many(n int, fields string) string {
	var items []string
	for i := range n {
		items = append(items, strings.TrimSuffix(fmt.Sprintf(`{"id":%d,%s`, i+1, fields), ",")+"}")
	}
	return "[" + strings.Join(items, ",") + "]"
}

func catalogue(artists, artworks, galleries string) string {
	return `{"artist":` + artists + `,"artwork":` + artworks + `,"gallery":` + galleries + `}`
}

func TestWhatIsHeldBack(t *testing.T) {
	named, nameless := `"name":"x"`, ``
	tied, untied := `"name":"x","gallery_artists":{"id":1,"title":"g"}`, `"name":"x","gallery_artists":null`
	placed := `"title":"x","address":[{"id":1,"street":"s","city":{"id":1,"name":"c"}}]`
	displaced := `"title":"x","address":[{"id":1,"street":"s","city":null}]`
	all := func(n int) string { return catalogue(many(n, named), "[]", "[]") }
	for name, c := range map[string]struct {
		resource     Resource
		held, loaded string
		reason       string
		lasting      bool
	}{
		"nothing new":                    {Catalogue, all(20), all(20), "", false},
		"more":                           {Catalogue, all(20), all(30), "", false},
		"from nothing":                   {Banners, "[]", many(9, ""), "", false},
		"all artists":                    {Catalogue, all(290), all(0), "no artists, 290 before", true},
		"both artists":                   {Catalogue, all(2), all(0), "no artists, 2 before", true},
		"the one artist":                 {Catalogue, all(1), all(0), "", false},
		"all rules":                      {Rules, many(3, ""), "[]", "no rule sets, 3 before", true},
		"all banners":                    {Banners, many(3, ""), "[]", "no banners, 3 before", false},
		"the one banner":                 {Banners, many(1, ""), "[]", "", false},
		"more than half":                 {Catalogue, all(290), all(14), "14 artists, 290 before", false},
		"just more than half":            {Catalogue, all(11), all(5), "5 artists, 11 before", false},
		"half":                           {Catalogue, all(10), all(5), "", false},
		"most of a short list":           {Catalogue, all(9), all(1), "", false},
		"a text":                         {Catalogue, all(10), catalogue(many(10, nameless), "[]", "[]"), "name is empty in all 10 artists, 10 had it", false},
		"a text of a short list":         {Catalogue, all(9), catalogue(many(9, nameless), "[]", "[]"), "", false},
		"a relation":                     {Catalogue, catalogue(many(12, tied), "[]", "[]"), catalogue(many(11, untied), "[]", "[]"), "gallery_artists is empty in all 11 artists, 12 had it", false},
		"a relation below":               {Catalogue, catalogue("[]", "[]", many(12, placed)), catalogue("[]", "[]", many(12, displaced)), "address.city is empty in all 12 galleries, 12 had it", false},
		"a relation of half of them":     {Catalogue, catalogue("["+half(12, tied, untied)+"]", "[]", "[]"), catalogue(many(12, untied), "[]", "[]"), "", false},
		"two lists":                      {Catalogue, catalogue(many(4, named), many(20, ""), "[]"), catalogue("[]", many(2, ""), "[]"), "no artists, 4 before; 2 artworks, 20 before", true},
		"other items, as many":           {Banners, many(20, `"title_en":"a"`), many(20, `"title_en":"b"`), "", false},
		"a list of texts":                {Catalogue, catalogue("[]", many(10, `"tag":["a"]`), "[]"), catalogue("[]", many(10, `"tag":[]`), "[]"), "tag is empty in all 10 artworks, 10 had it", false},
		"a boolean that becomes false":   {Catalogue, catalogue(many(10, `"visible":true`), "[]", "[]"), catalogue(many(10, `"visible":false`), "[]", "[]"), "", false},
		"what only one of the new lacks": {Catalogue, all(10), catalogue("["+half(10, named, nameless)+"]", "[]", "[]"), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			loss := Judge(c.resource, normal(t, c.resource, c.held), normal(t, c.resource, c.loaded), 0.5)
			switch {
			case c.reason == "" && loss != nil:
				t.Errorf("%+v", loss)
			case c.reason != "" && (loss == nil || loss.Reason != c.reason || loss.Lasting != c.lasting):
				t.Errorf("%+v, want %q, lasting: %v", loss, c.reason, c.lasting)
			}
		})
	}
}

// half is half of n items with one, and half with other fields.
func half(n int, one, other string) string {
	var items []string
	for i := range n {
		fields := one
		if i%2 == 1 {
			fields = other
		}
		items = append(items, strings.TrimSuffix(fmt.Sprintf(`{"id":%d,%s`, i+1, fields), ",")+"}")
	}
	return strings.Join(items, ",")
}

func normal(t *testing.T, r Resource, text string) []byte {
	t.Helper()
	doc, err := Normalize(r, []byte(text))
	testkit.Must(t, err)
	return doc.Body
}

func TestASmallerShareHoldsBackMore(t *testing.T) {
	from, to := normal(t, Banners, many(100, "")), normal(t, Banners, many(89, ""))
	if loss := Judge(Banners, from, to, 0.1); loss == nil || loss.Before != 100 || loss.Now != 89 {
		t.Errorf("%+v", loss)
	}
	if loss := Judge(Banners, from, normal(t, Banners, many(1, "")), 1); loss != nil {
		t.Errorf("%+v", loss)
	}
}

func TestJudgeSurvivesWhatIsNoDocument(t *testing.T) {
	for r := range map[Resource]bool{Catalogue: true, Banners: true} {
		for _, text := range []string{"", "{", "[", "null", `{"artist":[{"id":1}]`, `[{"id":1,"title_en":[[]]}]`, `{"a":[],"b":[],"c":[]}`} {
			if loss := Judge(r, []byte(text), []byte("[]"), 0.5); loss != nil {
				t.Errorf("%s: %+v", text, loss)
			}
		}
	}
}

func TestIdsThatAreNotUniqueAreCounted(t *testing.T) {
	counts, err := CountLists(Banners, normal(t, Banners, `[{"id":1},{"id":2},{"id":1},{"id":1}]`))
	if err != nil || counts[0].Repeated != 2 {
		t.Errorf("%+v, %v", counts, err)
	}
	texts, _ := counts[0].Empty()
	if len(texts) != 9 {
		t.Errorf("%v", texts)
	}
}
