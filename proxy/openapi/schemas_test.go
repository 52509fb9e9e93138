package openapi

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// object is a JSON object.
type object = map[string]any

// A schema is one of the document.
type schema struct {
	Type, Description    string
	Properties           map[string]object
	Required             []string
	AdditionalProperties any
}

func schemas(t *testing.T) map[string]schema {
	t.Helper()
	var doc struct {
		Components struct{ Schemas map[string]schema }
	}
	testkit.Must(t, json.Unmarshal(Document, &doc))
	return doc.Components.Schemas
}

// TestTheSchemasAreThoseOfTheTypes compares the schema of each type that goes over the wire with
// the type: every field is always there, in this order, and no other.
func TestTheSchemasAreThoseOfTheTypes(t *testing.T) {
	all := schemas(t)
	for _, of := range shape.Types() {
		got := all[schemaName(of.Name)]
		var names []string
		for _, f := range of.Fields {
			names = append(names, f.Name)
			schema := got.Properties[f.Name]
			delete(schema, "description")
			if want := schemaOf(f); !reflect.DeepEqual(schema, want) {
				t.Errorf("%s.%s is described as %v, want %v", of.Name, f.Name, schema, want)
			}
		}
		if !reflect.DeepEqual(got.Required, names) || len(got.Properties) != len(names) || got.AdditionalProperties != false || got.Type != "object" {
			t.Errorf("%s requires %q, want %q and nothing else", of.Name, got.Required, names)
		}
	}
	ordering := all["Description"].Properties["ordering"]["items"]
	var fields []any
	for _, name := range shape.BannerFields() {
		fields = append(fields, name)
	}
	if want := (object{"type": "string", "enum": fields}); !reflect.DeepEqual(ordering, any(want)) {
		t.Errorf("banners can be ordered by %v, want %v", ordering, want)
	}
}

// schemaName is the name of a type's schema: the summary is the catalogue.
func schemaName(name string) string {
	if name == "Summary" {
		return "Catalogue"
	}
	return name
}

// schemaOf is the schema of a field. Naming all types for one without a documented type would say
// the same as naming none, and make generators fail.
func schemaOf(f shape.Field) object {
	one := object{"$ref": "#/components/schemas/" + schemaName(f.Type)}
	switch f.Type {
	case "any":
		one = object{}
	case "integer":
		if one = (object{"type": "integer", "format": "int64"}); f.Null {
			return object{"type": []any{"integer", "null"}, "format": "int64"}
		}
	case "text":
		one = object{"type": "string"}
	case "boolean":
		one = object{"type": "boolean"}
	case "timestamp":
		one = object{"$ref": "#/components/schemas/Timestamp"}
	}
	switch {
	case f.List:
		return object{"type": "array", "items": one}
	case f.Null:
		return object{"type": []any{"object", "null"}, "anyOf": []any{one, object{"type": "null"}}}
	}
	return one
}

// TestTheInterfaceDocumentHasTheFieldsOfTheSchemas compares each section of docs/interface.md that
// a schema cites with that schema: the fields, their order, and which may be null.
func TestTheInterfaceDocumentHasTheFieldsOfTheSchemas(t *testing.T) {
	page, err := os.ReadFile("../../docs/interface.md")
	testkit.Must(t, err)
	sections := map[string]string{}
	for _, part := range strings.Split(string(page), "\n### ")[1:] {
		number, text, _ := strings.Cut(part, " ")
		text, _, _ = strings.Cut(text, "\n## ")
		sections[number] = text
	}
	cited := regexp.MustCompile(`Section ([0-9.]+[0-9]) of docs/interface\.md`)
	row := regexp.MustCompile(`(?m)^\| ([a-z_, ]+) \| (.*?) \|`)
	checked := 0
	for name, schema := range schemas(t) {
		section := cited.FindStringSubmatch(schema.Description)
		if section == nil {
			continue
		}
		checked++
		var fields []string
		for _, cells := range row.FindAllStringSubmatch(sections[section[1]], -1) {
			for field := range strings.SplitSeq(cells[1], ", ") {
				if field == "field" { // the heading
					continue
				}
				fields = append(fields, field)
				text, _ := json.Marshal(schema.Properties[field]) // as it came
				if null := strings.Contains(string(text), `"null"`); null != strings.HasSuffix(cells[2], " or null") {
					t.Errorf("section %s: %s is %q, but the schema %s says null: %v", section[1], field, cells[2], name, null)
				}
			}
		}
		if !slices.Equal(fields, schema.Required) {
			t.Errorf("section %s has the fields\n%v\nand the schema %s\n%v", section[1], fields, name, schema.Required)
		}
	}
	if checked != len(sections) {
		t.Errorf("%d schemas cite a section, and docs/interface.md has %d", checked, len(sections))
	}
}
