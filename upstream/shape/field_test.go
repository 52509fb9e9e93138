package shape

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
)

// outcome is what becomes of a value: out, after a repair of some kind ("" for none), or a refusal
// that wanted something else.
type outcome struct {
	kind Kind
	out  string
	want string
}

// rule gives the outcome of the values it names (nothing is the absence of the field); every other
// value is refused, with others as what was wanted.
type rule struct {
	others string
	values map[string]outcome
}

const nothing = "nothing"

// values are one of each sort, with how a refusal describes them.
var values = map[string]string{
	nothing: "nothing", "null": "null", "true": "true", "false": "false",
	"12": "12", "-12": "-12", "-0": "-0", "1.0": "1.0", "1.50e1": "1.50e1", "1.5": "1.5",
	"0e99999999999999999999": "0e99999999999999999999",
	"-9223372036854775808":   "-9223372036854775808", "9223372036854775808": "9223372036854775808",
	"9223372036854775807.0": "9223372036854775807.0",
	"1e400":                 "1e400", "1e-400": "1e-400", "1e-99999999999999999999": "1e-99999999999999999999", "1e99999999999999999999": "1e99999999999999999999",
	`""`: `""`, `"x"`: `"x"`, `"12"`: `"12"`, `"-0012"`: `"-0012"`, `"+12"`: `"+12"`, `" 12"`: `" 12"`,
	`"1.0"`: `"1.0"`, `"-"`: `"-"`, `"9223372036854775808"`: `"9223372036854775808"`,
	`"2023-04-05T06:07:08.000009Z"`: `"2023-04-05T06:07:08.000009Z"`,
	`"2023-04-05T08:07:08+02:00"`:   `"2023-04-05T08:07:08+02:00"`,
	`"2023-04-05T06:07:08"`:         `"2023-04-05T06:07:08"`,
	"[]":                            "a list", `["general", "home"]`: "a list", `[null]`: "a list",
	"{}": "an object", `{"id":7}`: "an object", `{ "b": 1.0, "a": [1E2] }`: "an object",
}

// texts are the values that are text, each as it comes out.
func texts() map[string]outcome {
	m := map[string]outcome{nothing: {kind: KindMissing, out: `""`}, "null": {kind: KindNull, out: `""`}}
	for v := range values {
		if strings.HasPrefix(v, `"`) {
			m[v] = outcome{out: v}
		}
	}
	return m
}

// integers are the values that are integers, and those too large for one.
func integers(more map[string]outcome) map[string]outcome {
	m := map[string]outcome{
		"12": {out: "12"}, "-12": {out: "-12"}, "-9223372036854775808": {out: "-9223372036854775808"},
		"-0": {kind: KindInteger, out: "0"}, "1.0": {kind: KindInteger, out: "1"}, "1.50e1": {kind: KindInteger, out: "15"},
		"9223372036854775807.0":  {kind: KindInteger, out: "9223372036854775807"},
		"0e99999999999999999999": {kind: KindInteger, out: "0"},
		`"12"`:                   {kind: KindInteger, out: "12"}, `"-0012"`: {kind: KindInteger, out: "-12"},
	}
	for _, v := range []string{"9223372036854775808", "1e400", "1e99999999999999999999", `"9223372036854775808"`} {
		m[v] = outcome{want: "an integer of 64 bits"}
	}
	maps.Copy(m, more)
	return m
}

// asIs are all values, compact; nothing and null are as given.
func passedThrough(absent, null outcome) map[string]outcome {
	m := map[string]outcome{}
	for v := range values {
		m[v] = outcome{out: strings.NewReplacer(", ", ",", ": ", ":", "{ ", "{", " }", "}").Replace(v)}
	}
	m[`" 12"`] = outcome{out: `" 12"`}
	m[nothing], m["null"] = absent, null
	return m
}

var missingNull = outcome{kind: KindMissing, out: "null"}

// ruleOf says what the contract makes of each value where typ is documented.
func ruleOf(typ string) rule {
	if strings.HasPrefix(typ, "list ") {
		return rule{"a list", map[string]outcome{
			nothing: {kind: KindMissing, out: "[]"}, "null": {kind: KindNull, out: "[]"}, "[]": {out: "[]"},
		}}
	}
	if strings.HasSuffix(typ, "?") {
		return rule{"an object", map[string]outcome{nothing: missingNull, "null": {kind: KindVacant, out: "null"}}}
	}
	switch typ {
	case "id":
		return rule{"an integer", integers(nil)}
	case "integer":
		return rule{"an integer", integers(map[string]outcome{nothing: missingNull, "null": {kind: KindVacant, out: "null"}})}
	case "nullable":
		return rule{"an integer", integers(map[string]outcome{nothing: missingNull, "null": {out: "null"}})}
	case "country":
		return rule{"an integer", integers(map[string]outcome{
			nothing: missingNull, "null": {kind: KindVacant, out: "null"}, `{"id":7}`: {kind: KindRelated, out: "7"},
		})}
	case "text":
		return rule{"text", texts()}
	case "boolean":
		return rule{"true or false", map[string]outcome{
			nothing: {kind: KindMissing, out: "false"}, "null": {kind: KindNull, out: "false"},
			"true": {out: "true"}, "false": {out: "false"},
		}}
	case "timestamp":
		return rule{"an ISO 8601 timestamp", map[string]outcome{
			nothing: {kind: KindMissing, out: `""`}, "null": {kind: KindNull, out: `""`}, `""`: {out: `""`},
			`"2023-04-05T06:07:08.000009Z"`: {out: `"2023-04-05T06:07:08.000009Z"`},
			`"2023-04-05T08:07:08+02:00"`:   {kind: KindTimestamp, out: `"2023-04-05T06:07:08.000000Z"`},
			`"2023-04-05T06:07:08"`:         {kind: KindZone, out: `"2023-04-05T06:07:08.000000Z"`},
		}}
	case "tags":
		return rule{"a list", map[string]outcome{
			nothing: {kind: KindMissing, out: "[]"}, "null": {kind: KindNull, out: "[]"}, "[]": {out: "[]"},
			`["general", "home"]`: {out: `["general","home"]`}, "[null]": {kind: KindNull, out: `[""]`},
		}}
	case "any":
		return rule{"", passedThrough(missingNull, outcome{out: "null"})}
	case "anylist":
		return rule{"", passedThrough(outcome{kind: KindMissing, out: "[]"}, outcome{kind: KindNull, out: "[]"})}
	default:
		panic("no rule for " + typ)
	}
}

// inside are the values whose outcome is not the field's but of what is in it; TestRefusalsInside
// and the recordings have those.
func inside(typ, value string) bool {
	switch {
	case strings.HasPrefix(typ, "list "):
		return strings.HasPrefix(value, "[") && value != "[]"
	case strings.HasSuffix(typ, "?"), typ == "country":
		return strings.HasPrefix(value, "{") && (typ != "country" || value != `{"id":7}`)
	default:
		return false
	}
}

// TestEveryFieldTakesRepairsOrRefusesEveryValue puts each value into each documented field and
// holds body, repairs, message and path against the rules.
func TestEveryFieldTakesRepairsOrRefusesEveryValue(t *testing.T) {
	for _, p := range places {
		fields := documentedFields(t, p.name)
		for _, field := range fields {
			rule := ruleOf(field.typ)
			for value, got := range values {
				if inside(field.typ, value) {
					continue
				}
				if p.name == "Summary" && value == nothing {
					continue // TestAnotherDocumentIsNotAnEmptyCatalogue
				}
				o, ok := rule.values[value]
				if !ok {
					o = outcome{want: rule.others}
				}
				in := fmt.Sprintf(p.document, objectWith(fields, field.name, value))
				path := p.path + "." + field.name
				t.Run(path+"="+value, func(t *testing.T) {
					holdAgainst(t, p.resource, in, path, field.name, o, got)
				})
			}
		}
	}
}

// objectWith returns an object in which all of fields are as documented, but the named one has
// value, or is not there.
func objectWith(fields []documentedField, name, value string) string {
	var members []string
	for _, f := range fields {
		v := value
		if f.name != name {
			v = fullValue(f.typ)
		} else if v == nothing {
			continue
		}
		members = append(members, fmt.Sprintf(`"%s":%s`, f.name, v))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func fullValue(typ string) string {
	switch {
	case strings.HasPrefix(typ, "list "), typ == "tags", typ == "anylist":
		return "[]"
	case strings.HasSuffix(typ, "?"), typ == "any":
		return "null"
	case typ == "text", typ == "timestamp":
		return `""`
	case typ == "boolean":
		return "true"
	default:
		return "1"
	}
}

func holdAgainst(t *testing.T, r Resource, in, path, field string, o outcome, got string) {
	t.Helper()
	doc, err := Normalize(r, []byte(in))
	if o.want != "" {
		want := fmt.Sprintf("%s: want %s, got %s", path, o.want, got)
		if err == nil || err.Error() != want || !errors.Is(err, ErrRefused) {
			t.Fatalf("got %v\nwant %s", err, want)
		}
		return
	}
	testkit.Must(t, err)
	testkit.Must(t, conforms(t, documentType(r), doc.Body))
	if want := fmt.Sprintf(`"%s":%s`, field, o.out); !strings.Contains(string(doc.Body), want) {
		t.Errorf("got %s\nwant in it %s", doc.Body, want)
	}
	at := path
	if strings.HasPrefix(o.out, `[""`) {
		at += "[0]"
	}
	for _, k := range kinds {
		if slices.Contains(doc.Repairs.Of(k).Paths, at) != (k == o.kind) {
			t.Errorf("repairs of kind %s at %v; want kind %q at %s", k, doc.Repairs.Of(k).Paths, o.kind, at)
		}
	}
}

func TestRefusalsInside(t *testing.T) {
	for _, c := range []struct {
		r        Resource
		in, want string
	}{
		{Catalogue, `{"artist":[{"id":1,"tag":["general",7]}]}`, `catalogue.artist[0].tag[1]: want text, got 7`},
		{Catalogue, `{"artist":[null]}`, `catalogue.artist[0]: want an object, got null`},
		{Catalogue, `{"artist":[{"id":1,"gallery_artists":{}}]}`, `catalogue.artist[0].gallery_artists.id: want an integer, got nothing`},
		{Catalogue, `{"gallery":[{"id":1,"address":[{"id":1},{"id":1,"city":{"id":null}}]}]}`, `catalogue.gallery[0].address[1].city.id: want an integer, got null`},
		{Catalogue, `{"gallery":[{"id":1,"address":[{"id":1,"city":{"id":1,"country":{}}}]}]}`, `catalogue.gallery[0].address[0].city.country.id: want an integer, got nothing`},
		{Catalogue, `{"gallery":[{"id":1,"address":[{"id":1,"city":{"id":1,"country":{"id":"be"}}}]}]}`, `catalogue.gallery[0].address[0].city.country.id: want an integer, got "be"`},
		{Rules, `[{"id":1,"page_rules":[{"id":1},{"id":1,"page":{"id":1,"title":{}}}]}]`, `rules[0].page_rules[1].page.title: want text, got an object`},
		{Rules, `{"results":[]}`, `rules: want a list, got an object`},
		{Banners, `[{"id":1},{"id":2},{"id":3},{"id":"x"}]`, `banners[3].id: want an integer, got "x"`},
		{Banners, `[[]]`, `banners[0]: want an object, got a list`},
		{Banners, `null`, `banners: want a list, got null`},
		{Banners, `{"detail":"Not found."}`, `banners: want a list, got an object`},
		{Catalogue, `[]`, `catalogue: want an object, got a list`},
		{Catalogue, `null`, `catalogue: want an object, got null`},
	} {
		_, err := Normalize(c.r, []byte(c.in))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s\ngot %v\nwant %s", c.in, err, c.want)
		}
	}
}

func TestAnotherDocumentIsNotAnEmptyCatalogue(t *testing.T) {
	_, err := Normalize(Catalogue, []byte(`{"detail":"Service unavailable"}`))
	want := "catalogue: want an object with artist, artwork and gallery, got one with other fields only"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	for _, in := range []string{`{}`, `{"gallery":null,"version":3}`} {
		doc, err := Normalize(Catalogue, []byte(in))
		if err != nil || string(doc.Body) != `{"artist":[],"artwork":[],"gallery":[]}` {
			t.Errorf("%s: got %s, %v", in, doc.Body, err)
		}
	}
}

func TestUnknownResourceIsNotARefusal(t *testing.T) {
	if _, err := Normalize("artists", []byte("[]")); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
}
