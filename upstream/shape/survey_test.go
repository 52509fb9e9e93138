package shape

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/upstream/guard"
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
	visible, hidden := `"name":"x","visible":true`, `"name":"x","visible":false`
	all := func(n int) string { return catalogue(many(n, named), "[]", "[]") }
	some := func(n int, one string, m int, other string) string {
		return "[" + strings.Trim(many(n, one), "[]") + "," + strings.Trim(strings.ReplaceAll(many(m, other), `"id":`, `"id":9`), "[]") + "]"
	}
	for name, c := range map[string]struct {
		resource     Resource
		held, loaded string
		reason       string
		lasting      bool
	}{
		"nothing new":                  {Catalogue, all(20), all(20), "", false},
		"more":                         {Catalogue, all(20), all(30), "", false},
		"from nothing":                 {Banners, "[]", many(9, ""), "", false},
		"all artists":                  {Catalogue, all(290), all(0), "no artists, 290 before", true},
		"both artists":                 {Catalogue, all(2), all(0), "no artists, 2 before", true},
		"the one artist":               {Catalogue, all(1), all(0), "", false},
		"all rules":                    {Rules, many(3, ""), "[]", "no rule sets, 3 before", true},
		"all banners":                  {Banners, many(3, ""), "[]", "no banners, 3 before", false},
		"the one banner":               {Banners, many(1, ""), "[]", "", false},
		"more than half":               {Catalogue, all(290), all(14), "14 artists, 290 before", false},
		"just more than half":          {Catalogue, all(11), all(5), "5 artists, 11 before", false},
		"more than half of ten":        {Catalogue, all(10), all(4), "4 artists, 10 before", false},
		"half":                         {Catalogue, all(10), all(5), "", false},
		"most of a short list":         {Catalogue, all(9), all(1), "", false},
		"copies of one":                {Banners, many(100, ""), "[" + strings.Repeat(`{"id":1},`, 99) + `{"id":1}]`, "1 banner, 100 before", false},
		"others in place of most":      {Banners, many(100, ""), some(40, "", 60, ""), "", false},
		"a text":                       {Catalogue, all(10), catalogue(many(10, nameless), "[]", "[]"), "name is empty in all 10 artists, 10 had it", false},
		"a text of a short list":       {Catalogue, all(3), catalogue(many(3, nameless), "[]", "[]"), "name is empty in all 3 artists, 3 had it", false},
		"a text of two":                {Catalogue, all(2), catalogue(many(2, nameless), "[]", "[]"), "", false},
		"a text of nearly all":         {Banners, many(100, `"title_en":"a"`), some(9, `"title_en":"a"`, 91, ""), "title_en is empty in 91 of 100 banners, 100 had it", false},
		"a text of nine tenths":        {Banners, many(100, `"title_en":"a"`), some(10, `"title_en":"a"`, 90, ""), "", false},
		"a text that a minority had":   {Banners, some(9, `"title_en":"a"`, 11, ""), many(20, ""), "", false},
		"a relation":                   {Catalogue, catalogue(many(12, tied), "[]", "[]"), catalogue(many(11, untied), "[]", "[]"), "gallery_artists is empty in all 11 artists, 12 had it", false},
		"a relation below":             {Catalogue, catalogue("[]", "[]", many(12, placed)), catalogue("[]", "[]", many(12, displaced)), "address.city is empty in all 12 galleries, 12 had it", false},
		"a relation of half of them":   {Catalogue, catalogue("["+half(12, tied, untied)+"]", "[]", "[]"), catalogue(many(12, untied), "[]", "[]"), "gallery_artists is empty in all 12 artists, 6 had it", false},
		"two lists":                    {Catalogue, catalogue(many(4, named), many(20, ""), "[]"), catalogue("[]", many(2, ""), "[]"), "no artists, 4 before; 2 artworks, 20 before", true},
		"two texts":                    {Banners, many(4, `"title_en":"a","title_nl":"b"`), many(4, ""), "title_en is empty in all 4 banners, 4 had it; title_nl is empty in all 4 banners, 4 had it", false},
		"other items, as many":         {Banners, many(20, `"title_en":"a"`), many(20, `"title_en":"b"`), "", false},
		"a list of texts":              {Catalogue, catalogue("[]", many(10, `"tag":["a"]`), "[]"), catalogue("[]", many(10, `"tag":[]`), "[]"), "tag is empty in all 10 artworks, 10 had it", false},
		"a flag":                       {Catalogue, catalogue(many(12, visible), "[]", "[]"), catalogue(many(12, hidden), "[]", "[]"), "visible is false in all 12 artists, true in 12 before", false},
		"a flag that comes":            {Catalogue, catalogue(many(12, hidden), "[]", "[]"), catalogue(many(12, visible), "[]", "[]"), "", false},
		"a flag that most still have":  {Catalogue, catalogue(many(12, visible), "[]", "[]"), catalogue("["+half(12, visible, hidden)+"]", "[]", "[]"), "", false},
		"a text of half of the new":    {Catalogue, all(10), catalogue("["+half(10, named, nameless)+"]", "[]", "[]"), "", false},
		"a field that came twice":      {Banners, many(4, `"title_en":"a"`), many(4, `"title_en":"a","title_en":""`), "title_en is empty in all 4 banners, 4 had it", false},
		"fields in another order":      {Catalogue, catalogue(many(12, tied), "[]", "[]"), `{"artist":` + strings.ReplaceAll(many(12, `"name":"x"`), `{"id"`, `{"gallery_artists":{"title":"g","id":1},"id"`) + `}`, "", false},
		"a list that came twice":       {Catalogue, all(20), `{"artist":[],"artist":` + many(20, named) + `}`, "", false},
		"a relation to a country's id": {Catalogue, catalogue("[]", "[]", many(3, `"title":"x","address":[{"id":1,"city":{"id":1,"country":{"id":3}}}]`)), catalogue("[]", "[]", many(3, `"title":"x","address":[{"id":1,"city":{"id":1,"country":null}}]`)), "address.city.country is empty in all 3 galleries, 3 had it", false},
	} {
		t.Run(name, func(t *testing.T) {
			found := policy.Judge(surveyOf(t, c.resource, c.held), surveyOf(t, c.resource, c.loaded)).Held()
			if found.String() != c.reason || found.Lasting() != c.lasting {
				t.Errorf("%v, want %q, lasting: %v", found, c.reason, c.lasting)
			}
		})
	}
}

var policy = guard.Policy{Shrink: 0.5, Hold: time.Minute}

func TestWhatIsServedWithAContentWarning(t *testing.T) {
	links := func(en, nl, fr string) string {
		return fmt.Sprintf(`"redirect_link_en":"/en/%s","redirect_link_nl":"/nl/%s","redirect_link_fr":"/fr/%s"`, en, nl, fr)
	}
	others := strings.ReplaceAll(many(12, ""), `"id":`, `"id":9`)
	for name, c := range map[string]struct {
		held, loaded string
		want         string
	}{
		"nothing":                     {many(12, links("a", "b", "c")), many(13, links("a", "b", "c")), ""},
		"no id in common":             {many(12, ""), others, "none of 12 banners was there before"},
		"one id in common":            {many(12, ""), "[" + `{"id":1},` + others[1:], ""},
		"none before":                 {"[]", others, ""},
		"nine others":                 {many(9, ""), strings.ReplaceAll(many(9, ""), `"id":`, `"id":9`), ""},
		"copies":                      {"", `[{"id":1},{"id":2},{"id":1},{"id":1}]`, "2 of 4 ids are not unique"},
		"languages exchanged":         {"", many(3, `"redirect_link_nl":"/fr/a","redirect_link_fr":"/nl/a"`), "3 of 3 links in redirect_link_nl are of another language; 3 of 3 links in redirect_link_fr are of another language"},
		"the same language for all":   {"", many(1, `"redirect_link_en":"/en","redirect_link_nl":"/en"`), "1 of 1 links in redirect_link_nl are of another language"},
		"a few links of another":      {"", "[" + half(3, `"redirect_link_nl":"/nl/a"`, `"redirect_link_nl":"/en/a"`) + "]", ""},
		"links without a language":    {"", many(3, `"redirect_link_nl":"/english/a","redirect_link_fr":"https://x/en/"`), ""},
		"the last banner":             {many(1, ""), "[]", "no banners, 1 before"},
		"a document without warnings": {"", "[]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var before guard.Survey
			if c.held != "" {
				before = surveyOf(t, Banners, c.held)
			}
			for _, p := range []guard.Policy{{}, policy} {
				if found := p.Judge(before, surveyOf(t, Banners, c.loaded)).Standing(); found.String() != c.want {
					t.Errorf("%v, want %q", found, c.want)
				}
			}
		})
	}
}

func TestAPolicyLimitsWhatIsHeldBack(t *testing.T) {
	before, fewer, none := surveyOf(t, Rules, many(100, "")), surveyOf(t, Rules, many(9, "")), surveyOf(t, Rules, "[]")
	for _, c := range []struct {
		policy guard.Policy
		now    guard.Survey
		held   bool
	}{
		{guard.Policy{Shrink: 0, Hold: time.Hour}, none, false},
		{guard.Policy{Shrink: 0.5}, none, true},
		{guard.Policy{Shrink: 0.5}, fewer, false},
		{guard.Policy{Shrink: 0.9, Hold: time.Hour}, fewer, true},
		{guard.Policy{Shrink: 0.91, Hold: time.Hour}, fewer, false},
		{guard.Policy{Shrink: 1, Hold: time.Hour}, fewer, false},
		{guard.Policy{Shrink: 1, Hold: time.Hour}, none, true},
	} {
		if found := c.policy.Judge(before, c.now).Held(); (len(found) > 0) != c.held {
			t.Errorf("%+v: %v", c.policy, found)
		}
	}
}

func surveyOf(t *testing.T, r Resource, text string) guard.Survey {
	t.Helper()
	doc, err := Normalize(r, []byte(text))
	testkit.Must(t, err)
	return doc.Survey
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
