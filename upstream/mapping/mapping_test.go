package mapping_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
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
	testkit.Must(t, err)
	var out []string
	err = program.Run(ctx, "in[3]", v, most, func(v any) error {
		text, err := mapping.Append(nil, "in[3]", v, mapping.Limits{Bytes: 1 << 20})
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
		{`stable_id`, `"ys0zoyhym3zoafae50baf91k"`, `3392134145040990`},
		{`html_text`, `"<p>a &amp; b<br />\nc &#8220;d&#8221; 1 < 2 <b class='>'>e</b></p>"`, `"a & b\nc “d” 1 < 2 e"`},
		{`from_epoch_ms`, `"1709212455123"`, `"2024-02-29T13:14:15.123000Z"`},
		{`from_epoch_ms`, `-1`, `"1969-12-31T23:59:59.999000Z"`},
		{`.`, `{"z":1,"id":2,"a":1.0,"big":12345678901234567890,"url":"u","title":"t"}`, `{"a":1.0,"big":12345678901234567890,"id":2,"title":"t","url":"u","z":1}`},
		{`.x`, `{"x":1,"x":2}`, `2`}, // the last of a repeated name, as Python takes it
		{`[infinite, nan, 1.5]`, `null`, `[1.7976931348623157e+308,null,1.5]`},
		{`env, $ENV`, `null`, `{} {}`},

		// At every depth.
		{`rename_all({createdAt: "created_at"})`, `{"createdAt":"t","created_at":"own","a":[{"createdAt":"u"}]}`, `{"a":[{"createdAt":"u","created_at":"u"}],"createdAt":"t","created_at":"own"}`},
		{`stable_ids("documentId") | [.id, .a.id]`, `{"id":2,"documentId":"ys0zoyhym3zoafae50baf91k","a":{"id":3}}`, `[3392134145040990,3]`},
		{`ids_of("parent")`, `{"city":{"parent":{"id":5,"x":1}},"parent":null}`, `{"city":{"parent":5},"parent":null}`},
		{"[marked({s: null}), marked({s: [1, 2]}), marked({t: 1})]", `{"b":[{"s":null},{"s":2}],"a":{"s":1}}`, `[".b[0].s",".a.s",null]`},
		{`. as $in | stable_ids("id") | $in`, `{"id":"x"}`, `{"id":"x"}`}, // which is not changed
	} {
		got, err := run(t.Context(), t, c.source, c.input, 0)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s on %s: %s, %v; want %s", c.source, c.input, got, err, c.want)
		}
	}
}

// As a browser's innerText has them.
func TestHTMLTextHasALineForALine(t *testing.T) {
	for in, want := range map[string]string{
		"<p>Oil on canvas</p>\n<p>wood</p>":                     "Oil on canvas\n\nwood",
		"canvas<br>wood<br/><br />metal":                        "canvas\nwood\n\nmetal",
		"<ul>\n<li>oil</li>\n<li>a <b>bold</b>  line</li></ul>": "oil\na bold line",
		"<h2>Title</h2><div>one<div>two</div></div>three":       "Title\none\ntwo\nthree",
		"<div>a</div><p>b</p><div>c</div>":                      "a\n\nb\n\nc",
		"<table><thead><tr><th>Year</th><th>Place</th></tr></thead>\n<tbody><tr>\n<td><p>1642</p></td>\n<td></td> <td><p>Amsterdam</p></td></tr></tbody></table><p>end</p>": "Year\tPlace\n1642\t\tAmsterdam\n\nend",
		"one\n  line <em>of</em>\t text<!-- no -->s": "one line of texts",
		"a<script>b</script><style>p{}</style>c":     "ac",
		"<p>code:</p><pre>a\n  b</pre>":              "code:\n\na\n  b",
		"<b>typed</b>\ttab":                          "typed\ttab",
		"two\nlines &amp; no tag":                    "two\nlines & no tag",
		"<p>&nbsp;</p><p>a&nbsp; b</p>":              "a\u00a0 b",
		"<p></p><br>":                                "",
	} {
		text, err := json.Marshal(in)
		testkit.Must(t, err)
		got, err := run(t.Context(), t, "html_text", string(text), 0)
		var plain string
		if err != nil || len(got) != 1 || json.Unmarshal([]byte(got[0]), &plain) != nil || plain != want {
			t.Errorf("%q: %s, %v; want %q", in, got, err, want)
		}
	}
}

// The list of docs/cms/README.md: a function that a release of gojq adds is to be taken from it.
func TestFunctionsThatGojqLacksAreRefusedByName(t *testing.T) {
	for _, source := range []string{
		"keys_unsorted", "toarray", "have_decnum", "have_literal_numbers", "$__loc__", "input", "debug", "stderr", `import "a" as a; .`, `include "a"; .`,
	} {
		name := strings.Fields(source)[0]
		if _, err := mapping.Compile("", "prog", source); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", source, err)
		}
	}
	if got, err := run(t.Context(), t, `test("(?<=a)b")`, `"ab"`, 0); err == nil {
		t.Errorf("look-around: %s", got)
	}
}

func TestErrorsShowProgramAndInput(t *testing.T) {
	for _, c := range []struct{ source, input, want string }{
		{".a\n| .b\n| .c | explode\n| .d", `{"a":{"b":{"c":1}}}`, `in[3]: prog: explode cannot be applied to: number (1)`},
		{`rename({"naam": "name"})`, `{}`, `in[3]: prog: key "naam" is missing: not there, not expanded, or not permitted`},
		{`need("x")`, `7`, `in[3]: prog: need("x") wants an object, got number`},
		{`error("no")`, `7`, `in[3]: prog: no`},
		{"(.a,\n .b)\n||", `7`, `prog: line 3 (||): unexpected token "|"`},
		{".a |\n\n  nosuch(1) | .b", `7`, `prog: line 3 (nosuch(1) | .b): function not defined: nosuch/1`},
		{"$x", `7`, `prog: line 1 ($x): variable not defined: $x`},
		{`import "a" as a; .`, `7`, `prog: line 1 (import "a" as a; .): unexpected token "import"`},
		{`input`, `7`, `prog: input(s)/0 is not allowed`},
	} {
		_, err := run(t.Context(), t, c.source, c.input, 0)
		if !errors.Is(err, mapping.ErrProgram) || err.Error() != c.want {
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
	if _, err := mapping.Append(nil, "in", strings.Repeat("x", 1000), mapping.Limits{Bytes: 999}); !errors.Is(err, shape.ErrRefused) {
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
