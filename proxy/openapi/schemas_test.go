package openapi

import (
	"encoding/json"
	"fmt"
	"strings"

	"vitrine/upstream/shape"
)

// object is a JSON object whose members keep their order, which is that of docs/interface.md.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var out strings.Builder
	out.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := marshal(m.value)
		if err != nil {
			return nil, err
		}
		out.WriteString(name + ":" + value)
	}
	out.WriteByte('}')
	return []byte(out.String()), nil
}

// marshal leaves <, > and & as they are.
func marshal(v any) (string, error) {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(out.String(), "\n"), err
}

func ref(kind, name string) object { return object{{"$ref", "#/components/" + kind + "/" + name}} }

// documented names, for each of the types that go over the wire, its section of docs/interface.md.
var documented = []struct {
	name, section, doc string
}{
	{"Summary", "2.1", "Artists, artworks and galleries."},
	{"Artist", "2.2", ""},
	{"GalleryRef", "2.3", "The gallery an artist is tied to."},
	{"Artwork", "2.4", ""},
	{"Gallery", "2.5", ""},
	{"Address", "2.6", ""},
	{"City", "2.7", ""},
	{"Country", "2.8", ""},
	{"RuleSet", "2.9", "Rules for how background images and prompts are shown."},
	{"PageRule", "2.10", ""},
	{"Page", "2.11", ""},
	{"Banner", "2.12", "A promotion in English, Dutch and French."},
}

// notes are what docs/interface.md says about single fields.
var notes = map[string]string{
	"Artist.name":              "The artist's name.",
	"Address.nr":               "The house number; may contain letters.",
	"Address.google_map_link":  "A map URL, or empty.",
	"City.typeof":              "A category label; the value seen is the word for a city followed by a space.",
	"City.country":             "The id of the related Country.",
	"City.parent":              "No documented type: passed through as the CMS sent it.",
	"RuleSet.background_image": "A URL.",
	"RuleSet.exlude_pages":     "Spelled exactly so. Items have no documented type: passed through as the CMS sent them.",
	"RuleSet.page_depth":       "No documented type: passed through as the CMS sent it.",
	"RuleSet.page_view_count":  "No documented type: passed through as the CMS sent it.",
	"RuleSet.days_delay":       "No documented type: passed through as the CMS sent it.",
	"RuleSet.time":             "No documented type: passed through as the CMS sent it.",
	"PageRule.days_delay":      "The CMS documents no unit.",
	"PageRule.time":            "The CMS documents no unit.",
	"Page.url":                 "A front-end route pattern with colon-prefixed placeholders.",
	"Banner.redirect_link_en":  "A site-relative path.",
	"Banner.redirect_link_nl":  "A site-relative path.",
	"Banner.redirect_link_fr":  "A site-relative path.",
}

// schemas describes the types, and what errors and OPTIONS are answered with.
func schemas() object {
	var all object
	for i, t := range shape.Types() {
		d := documented[i]
		if d.name != t.Name {
			panic(fmt.Sprintf("want %s described, got %s", t.Name, d.name))
		}
		doc := strings.TrimSpace(d.doc + " Section " + d.section + " of docs/interface.md.")
		all = append(all, member{schemaName(t.Name), typeSchema(doc, t)})
	}
	texts := object{{"type", "array"}, {"items", object{{"type", "string"}}}}
	return append(all,
		member{"Timestamp", object{
			{"type", "string"},
			{"description", "ISO 8601 in UTC with microseconds; empty if the CMS has none."},
			{"pattern", `^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z)?$`},
			{"examples", []string{"2023-05-04T09:30:00.000000Z"}},
		}},
		member{"Error", object{
			{"type", "object"},
			{"properties", object{{"detail", object{{"type", "string"}, {"minLength", 1}}}}},
			{"required", []string{"detail"}},
			{"additionalProperties", false},
		}},
		member{"Description", object{
			{"type", "object"},
			{"properties", object{
				{"name", object{{"type", "string"}}}, {"description", object{{"type", "string"}}},
				{"renders", texts}, {"parses", texts},
				{"ordering", object{
					{"type", "array"}, {"items", object{{"type", "string"}, {"enum", shape.BannerFields()}}},
					{"description", "The fields that banners can be ordered by; for banners only."},
				}},
			}},
			{"required", []string{"name", "description", "renders", "parses"}},
			{"additionalProperties", false},
		}},
	)
}

// schemaName is the name of a type's schema: the summary is the catalogue.
func schemaName(name string) string {
	if name == "Summary" {
		return "Catalogue"
	}
	return name
}

// typeSchema describes a type of shape: every field is always there, in this order, and no other.
func typeSchema(doc string, t shape.Type) object {
	var properties object
	var required []string
	for _, f := range t.Fields {
		schema := fieldSchema(f)
		if note := notes[t.Name+"."+f.Name]; note != "" {
			schema = append(schema, member{"description", note})
		}
		properties = append(properties, member{f.Name, schema})
		required = append(required, f.Name)
	}
	return object{
		{"type", "object"}, {"description", doc}, {"properties", properties},
		{"required", required}, {"additionalProperties", false},
	}
}

// anything is the schema of a value with no documented type. Naming all types would say the same,
// and make generators fail.
var anything = object{}

func fieldSchema(f shape.Field) object {
	var one object
	switch f.Type {
	case "any":
		one = anything
	case "integer":
		one = object{{"type", "integer"}, {"format", "int64"}}
		if f.Null {
			return object{{"type", []string{"integer", "null"}}, {"format", "int64"}}
		}
	case "text":
		one = object{{"type", "string"}}
	case "boolean":
		one = object{{"type", "boolean"}}
	case "timestamp":
		one = ref("schemas", "Timestamp")
	default:
		one = ref("schemas", schemaName(f.Type))
	}
	switch {
	case f.List:
		return object{{"type", "array"}, {"items", one}}
	case f.Null:
		return object{{"type", []string{"object", "null"}}, {"anyOf", []object{one, {{"type", "null"}}}}}
	}
	return one
}
