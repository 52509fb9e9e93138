package openapi

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
)

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

	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Description string
				Required    []string
				Properties  map[string]json.RawMessage
			}
		}
	}
	testkit.Must(t, json.Unmarshal(Document(), &doc))
	cited := regexp.MustCompile(`Section ([0-9.]+[0-9]) of docs/interface\.md`)
	row := regexp.MustCompile(`(?m)^\| ([a-z_, ]+) \| (.*?) \|`)
	checked := 0
	for name, schema := range doc.Components.Schemas {
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
				null := strings.Contains(string(schema.Properties[field]), `"null"`)
				if null != strings.HasSuffix(cells[2], " or null") {
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
