package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"vitrine/upstream/shape"
)

// A maker makes values that a schema of the document allows.
type maker struct {
	*rand.Rand
	components map[string]any
}

func newMaker(t *testing.T, seed uint64) *maker {
	t.Helper()
	var doc struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(Document(), &doc); err != nil {
		t.Fatal(err)
	}
	return &maker{rand.New(rand.NewPCG(seed, 0)), doc.Components.Schemas}
}

// document is an array of a schema's values, or the catalogue, as some CMS might write it: its
// fields in any order, with space between them, its characters escaped or not.
func (m *maker) document(r shape.Resource) []byte {
	var out bytes.Buffer
	switch r {
	case shape.Catalogue:
		m.write(&out, m.components["Catalogue"])
	case shape.Rules:
		m.array(&out, m.components["RuleSet"])
	case shape.Banners:
		m.array(&out, m.components["Banner"])
	}
	return out.Bytes()
}

func (m *maker) space(out *bytes.Buffer) {
	for m.IntN(8) == 0 {
		out.WriteByte(" \t\r\n"[m.IntN(4)])
	}
}

func (m *maker) array(out *bytes.Buffer, items any) {
	out.WriteByte('[')
	for i := range m.IntN(5) {
		if i > 0 {
			out.WriteByte(',')
		}
		m.space(out)
		m.write(out, items)
		m.space(out)
	}
	out.WriteByte(']')
}

func (m *maker) write(out *bytes.Buffer, schema any) {
	s, _ := schema.(map[string]any)
	if name, ok := s["$ref"].(string); ok {
		name = name[strings.LastIndexByte(name, '/')+1:]
		if name == "Timestamp" {
			m.timestamp(out)
			return
		}
		m.write(out, m.components[name])
		return
	}
	if forms := list(s["anyOf"]); len(forms) > 0 {
		m.write(out, forms[m.IntN(len(forms))])
		return
	}
	kind := s["type"]
	if kinds := list(kind); len(kinds) > 0 {
		kind = kinds[m.IntN(len(kinds))]
	}
	switch kind {
	case "object":
		m.object(out, s["properties"].(map[string]any))
	case "array":
		m.array(out, s["items"])
	case "integer":
		fmt.Fprint(out, m.Int64N(1<<uint(m.IntN(62)+1))-m.Int64N(1<<uint(m.IntN(62)+1)))
	case "boolean":
		fmt.Fprint(out, m.IntN(2) == 0)
	case "string":
		m.text(out)
	case "null":
		out.WriteString("null")
	default:
		m.anything(out, 0)
	}
}

func (m *maker) object(out *bytes.Buffer, properties map[string]any) {
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	m.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	out.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			out.WriteByte(',')
		}
		m.space(out)
		fmt.Fprintf(out, "%q", name)
		m.space(out)
		out.WriteByte(':')
		m.space(out)
		m.write(out, properties[name])
	}
	out.WriteByte('}')
}

// alphabet has what is written in several ways, or has a meaning somewhere.
var alphabet = []rune("abcXYZ 09\"\\/\b\f\n\r\t\x00\x1f\x7f<>&'{}[],:é€中😀\u0080\u00a0\u2028\u2029\u202e\ufeff\ufffd\U0010ffff")

func (m *maker) text(out *bytes.Buffer) {
	var text strings.Builder
	for range m.IntN(12) {
		text.WriteRune(alphabet[m.IntN(len(alphabet))])
	}
	if m.IntN(2) == 0 {
		quoted, err := json.Marshal(text.String())
		if err != nil {
			panic(err) // it is text
		}
		out.Write(quoted)
		return
	}
	out.WriteByte('"')
	for _, r := range text.String() {
		switch {
		case r > 0xffff:
			out.WriteRune(r)
		case r < ' ' || r == '"' || r == '\\' || m.IntN(2) == 0:
			fmt.Fprintf(out, `\u%04X`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
}

func (m *maker) timestamp(out *bytes.Buffer) {
	if m.IntN(8) == 0 {
		out.WriteString(`""`)
		return
	}
	at := time.Unix(m.Int64N(4102444800), 0).UTC().Add(time.Duration(m.IntN(1_000_000)) * time.Microsecond)
	out.WriteString(at.Format(`"2006-01-02T15:04:05.000000Z"`))
}

// anything is a value of a field with no documented type.
func (m *maker) anything(out *bytes.Buffer, depth int) {
	switch kind := m.IntN(7); {
	case kind == 0:
		out.WriteString("null")
	case kind == 1:
		fmt.Fprint(out, m.IntN(2) == 0)
	case kind == 2:
		out.WriteString([]string{"0", "-0", "1.0", "1e3", "-12.50", "123456789012345678901234567890", "0.1e-5"}[m.IntN(7)])
	case kind == 3 && depth < 3:
		out.WriteByte('[')
		for i := range m.IntN(3) {
			if i > 0 {
				out.WriteByte(',')
			}
			m.anything(out, depth+1)
		}
		out.WriteByte(']')
	case kind == 4 && depth < 3:
		out.WriteByte('{')
		for i := range m.IntN(3) {
			if i > 0 {
				out.WriteByte(',')
			}
			fmt.Fprintf(out, `"k%d":`, i)
			m.anything(out, depth+1)
		}
		out.WriteByte('}')
	default:
		m.text(out)
	}
}

// ordering asks for some of the fields, and for what is none.
func (m *maker) ordering() string {
	fields := append(shape.BannerFields(), "nothing", "")
	terms := make([]string, 1+m.IntN(4))
	for i := range terms {
		terms[i] = []string{"", "-", " "}[m.IntN(3)] + fields[m.IntN(len(fields))]
	}
	return strings.Join(terms, ",")
}

// values reads JSON with its numbers as they are written.
func values(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// same writes a value so that equal ones are equal: fields sorted, text unescaped.
func same(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func body(t *testing.T, url string) []byte {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", url, resp.StatusCode, err)
	}
	return text
}

// checkServed holds, for one document of each resource within its schema: it is accepted, what is
// served validates and keeps every value, and an ordering is a permutation.
func checkServed(t *testing.T, base string, sources map[shape.Resource]*held, seed uint64) {
	t.Helper()
	m := newMaker(t, seed)
	for i, r := range shape.Resources() {
		sent := m.document(r)
		sources[r].hold(t, r, normalized(t, r, sent))
		path := publicRoutes[i].path
		where := "/paths/" + escaped(path) + "/get/responses/200" + jsonContent
		want := same(t, values(t, sent))
		for _, query := range []string{"", "?format=api"} {
			got := body(t, base+path+query)
			if err := validate(t, where, got); err != nil {
				t.Errorf("seed %d, %s: %v", seed, r, err)
			}
			if got := same(t, values(t, got)); got != want {
				t.Errorf("seed %d, %s is served as\n%s\nand was\n%s", seed, r, got, want)
			}
		}
		if r != shape.Banners {
			continue
		}
		ordering := m.ordering()
		got := body(t, base+path+"?ordering="+url.QueryEscape(ordering))
		if err := validate(t, where, got); err != nil {
			t.Errorf("seed %d, ordering %q: %v", seed, ordering, err)
		}
		items := func(text []byte) (all []string) {
			for _, v := range list(values(t, text)) {
				all = append(all, same(t, v))
			}
			slices.Sort(all)
			return all
		}
		if !slices.Equal(items(got), items(sent)) {
			t.Errorf("seed %d, ordering %q is no permutation:\n%s\nof\n%s", seed, ordering, got, sent)
		}
	}
}

func TestEveryDocumentWithinItsSchemaIsServedWithEveryValue(t *testing.T) {
	base, sources := start(t)
	for seed := range uint64(150) {
		checkServed(t, base, sources, seed)
	}
}

func FuzzServed(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		base, sources := start(t)
		checkServed(t, base, sources, seed)
	})
}
