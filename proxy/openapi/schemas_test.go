package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
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
	value              any
}{
	{"Catalogue", "2.1", "Artists, artworks and galleries.", shape.Summary{}},
	{"Artist", "2.2", "", shape.Artist{}},
	{"GalleryRef", "2.3", "The gallery that an artist is tied to.", shape.GalleryRef{}},
	{"Artwork", "2.4", "", shape.Artwork{}},
	{"Gallery", "2.5", "", shape.Gallery{}},
	{"Address", "2.6", "", shape.Address{}},
	{"City", "2.7", "", shape.City{}},
	{"Country", "2.8", "", shape.Country{}},
	{"RuleSet", "2.9", "Rules for how background images and prompts are shown.", shape.RuleSet{}},
	{"PageRule", "2.10", "", shape.PageRule{}},
	{"Page", "2.11", "", shape.Page{}},
	{"Banner", "2.12", "A promotion in English, Dutch and French.", shape.Banner{}},
}

// notes are what docs/interface.md says about single fields.
var notes = map[string]string{
	"Artist.name":              "The artist's name.",
	"Address.nr":               "The house number; may contain letters.",
	"Address.google_map_link":  "A map URL, or empty.",
	"City.typeof":              "A category label; the value seen is the word for a city followed by a trailing space.",
	"City.country":             "The id of the related Country.",
	"City.parent":              "Of no documented type: as the CMS sent it.",
	"RuleSet.background_image": "A URL.",
	"RuleSet.exlude_pages":     "Spelled so. The shape of its items is not documented: as the CMS sent them.",
	"RuleSet.page_depth":       "Of no documented type: as the CMS sent it.",
	"RuleSet.page_view_count":  "Of no documented type: as the CMS sent it.",
	"RuleSet.days_delay":       "Of no documented type: as the CMS sent it.",
	"RuleSet.time":             "Of no documented type: as the CMS sent it.",
	"PageRule.days_delay":      "In a unit that is not documented.",
	"PageRule.time":            "In a unit that is not documented.",
	"Page.url":                 "A front-end route pattern with colon-prefixed placeholders.",
	"Banner.redirect_link_en":  "A site-relative path.",
	"Banner.redirect_link_nl":  "A site-relative path.",
	"Banner.redirect_link_fr":  "A site-relative path.",
}

// schemas describes the types, and what errors and OPTIONS are answered with.
func schemas() object {
	var all object
	for _, d := range documented {
		doc := strings.TrimSpace(d.doc + " Section " + d.section + " of docs/interface.md.")
		all = append(all, member{d.name, structSchema(d.name, doc, reflect.TypeOf(d.value))})
	}
	texts := object{{"type", "array"}, {"items", object{{"type", "string"}}}}
	return append(all,
		member{"Timestamp", object{
			{"type", "string"},
			{"description", "ISO 8601 in UTC with microseconds; empty where the CMS has none."},
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
					{"type", "array"}, {"items", object{{"enum", shape.BannerFields()}}},
					{"description", "The fields that banners can be ordered by; for banners only."},
				}},
			}},
			{"required", []string{"name", "description", "renders", "parses"}},
			{"additionalProperties", false},
		}},
	)
}

// structSchema describes a struct of shape: every field is always there, in this order, and no other.
func structSchema(name, doc string, t reflect.Type) object {
	var properties object
	var required []string
	for i := range t.NumField() {
		f := t.Field(i)
		field := f.Tag.Get("json")
		schema := typeSchema(f.Type)
		if field == "exlude_pages" { // the one part of unknown items that is known to be a list
			schema = object{{"type", "array"}}
		}
		if note := notes[name+"."+field]; note != "" {
			schema = append(schema, member{"description", note})
		}
		properties = append(properties, member{field, schema})
		required = append(required, field)
	}
	return object{
		{"type", "object"}, {"description", doc}, {"properties", properties},
		{"required", required}, {"additionalProperties", false},
	}
}

// typeSchema describes the type of a field.
func typeSchema(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[shape.Timestamp]():
		return ref("schemas", "Timestamp")
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	}
	switch t.Kind() {
	case reflect.Int64:
		return object{{"type", "integer"}, {"format", "int64"}}
	case reflect.String:
		return object{{"type", "string"}}
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.Slice:
		return object{{"type", "array"}, {"items", typeSchema(t.Elem())}}
	case reflect.Struct:
		return ref("schemas", nameOf(t))
	case reflect.Pointer:
		if t.Elem().Kind() == reflect.Int64 {
			return object{{"type", []string{"integer", "null"}}, {"format", "int64"}}
		}
		return object{{"anyOf", []object{typeSchema(t.Elem()), {{"type", "null"}}}}}
	}
	panic(fmt.Sprintf("a field of type %v cannot be described", t))
}

func nameOf(t reflect.Type) string {
	for _, d := range documented {
		if reflect.TypeOf(d.value) == t {
			return d.name
		}
	}
	panic(fmt.Sprintf("%v is not among the documented types", t))
}
