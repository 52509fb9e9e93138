package operator

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// TestEveryFieldOfTheStatusIsDocumented walks the types of /api/status and looks each name up in
// docs/status.md.
func TestEveryFieldOfTheStatusIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/status.md")
	testkit.Must(t, err)
	names := map[string]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(typ.Elem())
		case reflect.Struct:
			if typ == reflect.TypeFor[time.Time]() {
				return
			}
			for i := range typ.NumField() {
				name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
				if name != "" {
					names[name] = true
				}
				walk(typ.Field(i).Type)
			}
		}
	}
	walk(reflect.TypeFor[Status]())
	if len(names) < 60 {
		t.Errorf("only %d names were found", len(names))
	}
	for name := range names {
		if !strings.Contains(string(doc), "`"+name+"`") && !strings.Contains(string(doc), "### "+name+"\n") {
			t.Errorf("docs/status.md does not name %s", name)
		}
	}
}
