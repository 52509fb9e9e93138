package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
)

// The tables of sections 2.1 to 2.12 of docs/interface.md, typed from it: each field, in order,
// with its type. A "?" is what contract and document allow to be null; any is a type that the
// document does not show.
var documented = map[string]string{
	"Summary": `artist: list Artist; artwork: list Artwork; gallery: list Gallery`,
	"Artist":  `id: id; name: text; gallery_artists: GalleryRef?; visible: boolean; tag: tags`,
	"GalleryRef": `id: id; title: text; art_kunstkoop: boolean; kunst_aan_zet: boolean;
		tag: tags`,
	"Artwork": `id: id; title: text; description: text; tag: tags`,
	"Gallery": `id: id; title: text; about: text; address: list Address; art_kunstkoop: boolean;
		kunst_aan_zet: boolean; tag: tags`,
	"Address": `id: id; street: text; nr: text; postal_code: text; google_map_link: text;
		created_at: timestamp; updated_at: timestamp; city: City?; country: Country?`,
	"City": `id: id; typeof: text; name: text; zip: text; description: text; order_num: nullable;
		created_at: timestamp; updated_at: timestamp; country: country; parent: any`,
	"Country": `id: id; name: text; created_at: timestamp; updated_at: timestamp`,
	"RuleSet": `id: id; background_image: text; page_rules: list PageRule; exlude_pages: anylist;
		title: text; page_depth: any; page_view_count: any; days_delay: any; time: any;
		visible: boolean; created_at: timestamp; updated_at: timestamp`,
	"PageRule": `id: id; background_image: text; title: text; page: Page?; name: text;
		page_view_count: integer; days_delay: integer; time: integer;
		created_at: timestamp; updated_at: timestamp`,
	"Page": `id: id; title: text; url: text; created_at: timestamp; updated_at: timestamp`,
	"Banner": `id: id; title_en: text; title_nl: text; title_fr: text;
		button_text_en: text; button_text_nl: text; button_text_fr: text;
		redirect_link_en: text; redirect_link_nl: text; redirect_link_fr: text;
		language_en: boolean; language_nl: boolean; language_fr: boolean;
		created_at: timestamp; updated_at: timestamp`,
}

// places says where each type stands in a smallest document: %s is the object.
var places = []struct {
	name     string
	resource Resource
	path     string
	document string
}{
	{"Summary", Catalogue, "catalogue", `%s`},
	{"Artist", Catalogue, "catalogue.artist[0]", `{"artist":[%s]}`},
	{"GalleryRef", Catalogue, "catalogue.artist[1].gallery_artists", `{"artist":[{"id":1},{"id":1,"gallery_artists":%s}]}`},
	{"Artwork", Catalogue, "catalogue.artwork[0]", `{"artwork":[%s]}`},
	{"Gallery", Catalogue, "catalogue.gallery[0]", `{"gallery":[%s]}`},
	{"Address", Catalogue, "catalogue.gallery[0].address[0]", `{"gallery":[{"id":1,"address":[%s,{"id":1}]}]}`},
	{"City", Catalogue, "catalogue.gallery[0].address[0].city", `{"gallery":[{"id":1,"address":[{"id":1,"city":%s}]}]}`},
	{"Country", Catalogue, "catalogue.gallery[0].address[0].country", `{"gallery":[{"id":1,"address":[{"id":1,"country":%s}]}]}`},
	{"RuleSet", Rules, "rules[0]", `[%s]`},
	{"PageRule", Rules, "rules[0].page_rules[0]", `[{"id":1,"page_rules":[%s]}]`},
	{"Page", Rules, "rules[0].page_rules[0].page", `[{"id":1,"page_rules":[{"id":1,"page":%s}]}]`},
	{"Banner", Banners, "banners[0]", `[%s]`},
}

type documentedField struct{ name, typ string }

func documentedFields(tb testing.TB, name string) []documentedField {
	tb.Helper()
	table, ok := documented[name]
	if !ok {
		tb.Fatalf("no table for %s", name)
	}
	var fields []documentedField
	for line := range strings.SplitSeq(table, ";") {
		field, typ, _ := strings.Cut(strings.TrimSpace(line), ": ")
		fields = append(fields, documentedField{field, typ})
	}
	return fields
}

var utcMicroseconds = regexp.MustCompile(`^"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)?"$`)

// conforms reports how value, of the documented type, is not as documented: its fields, their order
// and each one's type.
func conforms(tb testing.TB, typ string, value json.RawMessage) error {
	tb.Helper()
	if inner, ok := strings.CutSuffix(typ, "?"); ok {
		if string(value) == "null" {
			return nil
		}
		typ = inner
	}
	if item, ok := strings.CutPrefix(typ, "list "); ok {
		var items []json.RawMessage
		if err := json.Unmarshal(value, &items); err != nil || items == nil {
			return fmt.Errorf("want a list, got %s", value)
		}
		for i, v := range items {
			if err := conforms(tb, item, v); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return nil
	}
	if _, ok := documented[typ]; ok {
		return conformsToTable(tb, typ, value)
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err
	}
	_, isText := v.(string)
	_, isBool := v.(bool)
	n, isNumber := v.(json.Number)
	if isNumber {
		_, err := n.Int64()
		isNumber = err == nil
	}
	var ok bool
	switch typ {
	case "id":
		ok = isNumber
	case "integer", "nullable", "country":
		ok = isNumber || v == nil
	case "text":
		ok = isText
	case "boolean":
		ok = isBool
	case "timestamp":
		ok = utcMicroseconds.Match(value)
	case "tags":
		var tags []string
		ok = json.Unmarshal(value, &tags) == nil && tags != nil
	case "any":
		ok = true
	case "anylist":
		ok = v != nil
	default:
		tb.Fatalf("no type %q", typ)
	}
	if !ok {
		return fmt.Errorf("want %s, got %s", typ, value)
	}
	return nil
}

func conformsToTable(tb testing.TB, typ string, value json.RawMessage) error {
	tb.Helper()
	d := json.NewDecoder(bytes.NewReader(value))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("want an object, got %s", value)
	}
	for _, f := range documentedFields(tb, typ) {
		key, err := d.Token()
		if err != nil {
			return err
		} else if key != f.name {
			return fmt.Errorf("want the field %s, got %v", f.name, key)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return err
		}
		if err := conforms(tb, f.typ, v); err != nil {
			return fmt.Errorf(".%s: %w", f.name, err)
		}
	}
	if t, err := d.Token(); err != nil || t != json.Delim('}') {
		return fmt.Errorf("want no further field, got %v", t)
	}
	return nil
}

// documentType is the documented type of a whole document.
func documentType(r Resource) string {
	return map[Resource]string{Catalogue: "Summary", Rules: "list RuleSet", Banners: "list Banner"}[r]
}

func TestEveryDocumentedFieldComesOutInOrderHoweverTheyCame(t *testing.T) {
	for _, p := range places {
		var reversed []string
		for _, f := range slices.Backward(documentedFields(t, p.name)) {
			if f.name != "id" {
				reversed = append(reversed, fmt.Sprintf(`"%s":null`, f.name))
			}
		}
		least := []string{`"id":1`}
		if p.name == "Summary" {
			least = nil
		}
		for _, fields := range [][]string{least, append(reversed, least...)} {
			in := fmt.Sprintf(p.document, "{"+strings.Join(fields, ",")+"}")
			doc, err := Normalize(p.resource, []byte(in))
			testkit.Must(t, err)
			if err := conforms(t, documentType(p.resource), doc.Body); err != nil {
				t.Errorf("%s\nis %s\n%v", in, doc.Body, err)
			}
		}
	}
}

func TestBannerFieldsAreTheDocumentedOnes(t *testing.T) {
	var want []string
	for _, f := range documentedFields(t, "Banner") {
		want = append(want, f.name)
	}
	got := BannerFields()
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %v, want %v", got, want)
	}
	got[0] = "changed"
	if BannerFields()[0] != "id" {
		t.Error("a caller can change the fields")
	}
}
