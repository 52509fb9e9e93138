package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
)

func TestChangesAreSaidInNumbersAndNames(t *testing.T) {
	item := func(id int, title string) string { return fmt.Sprintf(`{"id":%d,"title":%q}`, id, title) }
	list := func(items ...string) string { return "[" + strings.Join(items, ",") + "]" }
	artworks := func(items ...string) string { return `{"artwork":` + list(items...) + `}` }
	many := func(from, to int) (items []string) {
		for i := from; i < to; i++ {
			items = append(items, item(i, fmt.Sprintf("no %d", i)))
		}
		return items
	}
	for _, c := range []struct {
		r              Resource
		from, to, want string
	}{
		{Catalogue, artworks(many(1, 5)...), artworks(many(1, 5)...), ""},
		{
			Catalogue, artworks(item(1, "Night Watch"), item(2, "a"), item(3, "b")),
			artworks(`{"id":2,"title":"a","tag":["home"]}`, item(3, "c"), item(4, "d"), item(5, "e"), item(6, "f")),
			"3 artworks added, 1 removed (Night Watch), 2 changed (tag, title)",
		},
		{Catalogue, artworks(many(1, 9)...), artworks(), "8 artworks removed (no 1, no 2, no 3, no 4, no 5, …)"},
		{Catalogue, artworks(many(1, 4)...), artworks(item(3, "no 3"), item(1, "no 1"), item(2, "no 2")), "artworks in another order"},
		{Catalogue, artworks(many(1, 4)...), artworks(item(3, "no 3"), item(1, "no 1")), "1 artwork removed (no 2), others moved"},
		{
			Catalogue, `{"artist":[{"id":1,"name":"A"}],"gallery":[]}`, `{"artist":[{"id":1,"name":"B"}],"gallery":[{"id":1},{"id":2}]}`,
			"1 artist changed (name); 2 galleries added",
		},
		{Catalogue, `{"artist":[{"id":1,"tag":[]}]}`, `{}`, "1 artist removed (id 1)"},
		{Rules, list(), list(item(1, "")), "1 rule set added"},
		{Rules, list(item(1, ""), item(2, "")), list(), "2 rule sets removed (id 1, id 2)"},
		{Banners, `[{"id":1,"title_en":"","title_nl":"x\u001b[2Jy","title_fr":"z"}]`, `[]`, `1 banner removed (x\x1b[2Jy)`},
		{Banners, list(item(1, strings.Repeat("é", 50))), `[]`, "1 banner removed (" + strings.Repeat("é", 40) + "…)"},
		{Banners, `[{"id":1,"title_en":"a","updated_at":"x"}]`, `[{"id":1,"title_en":"b","updated_at":"y"}]`, "1 banner changed (title_en)"},
		{Banners, `[{"id":1,"title_en":"a","updated_at":"x"}]`, `[{"id":1,"title_en":"a","updated_at":"y"}]`, "1 banner changed (updated_at)"},
		// One of three with the same id is gone, and the next took its place.
		{Banners, list(item(1, "a"), item(1, "b"), item(1, "c")), list(item(1, "a"), item(1, "c")), "1 banner removed (c), 1 changed (title)"},
		{Banners, list(item(1, "a")), list(item(1, "a"), item(1, "a"), item(1, "a")), "2 banners sent again"},
		{
			Catalogue, `{"gallery":[{"id":1,"address":[{"id":2,"city":{"id":3,"name":"a"}}]}]}`,
			`{"gallery":[{"id":1,"address":[{"id":2,"city":{"id":3,"name":"b"}}]}]}`, "1 gallery changed (address.city.name)",
		},
		{
			Catalogue, `{"gallery":[{"id":1,"address":[{"id":2}]}],"artist":[{"id":1,"gallery_artists":null}]}`,
			`{"gallery":[{"id":1,"address":[]}],"artist":[{"id":1,"gallery_artists":{"id":2}}]}`, "1 artist changed (gallery_artists); 1 gallery changed (address)",
		},
		// What is not a document counts as far as it can be read.
		{Banners, "", list(item(1, "a")), "1 banner added"},
		{Banners, "<html>", list(item(1, "a")), "1 banner added"},
		{Banners, `[{"id":1},{"id":2}`, list(item(1, "a")), "1 banner removed (id 2), 1 changed (title)"},
		{Banners, `{"id":[`, `[`, ""},
		{Catalogue, `[{"id":1}]`, `{"artist":3,"artwork":[3]}`, ""},
	} {
		if got := Compare(c.r, []byte(c.from), []byte(c.to)).String(); got != c.want {
			t.Errorf("%s, %s to %s:\ngot  %s\nwant %s", c.r, c.from, c.to, got, c.want)
		}
	}
}

// TestLargeDocumentsAreComparedFrugally has the one with the most items for its size.
func TestLargeDocumentsAreComparedFrugally(t *testing.T) {
	var in bytes.Buffer
	for i := range 50_000 {
		fmt.Fprintf(&in, `,{"id":%d,"title":"","description":"","tag":[]}`, i)
	}
	doc := []byte(`{"artist":[],"artwork":[` + in.String()[1:] + `],"gallery":[]}`)
	if got := testkit.Allocated(func() { Compare(Catalogue, doc, doc) }); got > 6*len(doc) {
		t.Errorf("allocated %d bytes for two documents of %d", got, len(doc))
	}
}

func FuzzCompare(f *testing.F) {
	f.Add([]byte(`{"artwork":[{"id":1,"title":"a"}]}`), []byte(`{"artwork":[{"id":1,"title":"b"},{"id":2}]}`))
	f.Add([]byte(`[{"id":1},{"id":`), []byte(`[[]]`))
	f.Add([]byte(`{"`), []byte(`{"artwork":[{"id`))
	f.Add([]byte(`0""`), []byte(`[{},{}0`)) // a copy of an id is no item more, and one less where it goes
	f.Fuzz(func(t *testing.T, from, to []byte) {
		for _, r := range Resources() {
			if all := Compare(r, from, to); (len(all) == 0) != (all.String() == "") {
				t.Errorf("%s: %+v", r, all)
			}
			if same := Compare(r, from, from); same != nil {
				t.Errorf("%s: %q and itself: %+v", r, from, same)
			}
			there, back := Compare(r, from, to), Compare(r, to, from)
			for i, c := range there {
				if b := back[i]; b.List != c.List || b.Added+b.Copies != c.Removed || b.Removed != c.Added+c.Copies || b.Changed != c.Changed || b.Moved != c.Moved {
					t.Errorf("%s: %q to %q: %+v, and back: %+v", r, from, to, c, b)
				}
			}
		}
	})
}

func TestIndentStaysInBoundsWhateverItGets(t *testing.T) {
	got := Indent(nil, []byte(strings.Repeat("[", 1_000)), 8)
	if limit := 1_000 * (2 + 8*maxDepth); len(got) > limit {
		t.Errorf("%d bytes, want at most %d", len(got), limit)
	}
}

// FuzzIndent holds Indent against the standard library on compact JSON, and to no panic on anything
// else.
func FuzzIndent(f *testing.F) {
	for _, in := range []string{`[]`, `{}`, `[[],{}]`, `{"a":"{[,:]}\\","b\"":[1]}`, `[1,2]`, `{"a":[1,{"b":[]}],"c":"\"{"}`, `"\`, `]}[`} {
		for _, n := range []int{-1, 0, 1, 2, 8} {
			f.Add([]byte(in), n)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, n int) {
		n %= 9
		Indent(nil, in, n)
		var compact, want bytes.Buffer
		if json.Compact(&compact, in) != nil || depthOf(in) > maxDepth {
			return
		}
		got, kept := bytes.CutPrefix(Indent([]byte("before"), compact.Bytes(), n), []byte("before"))
		if n <= 0 {
			want = compact
		} else if err := json.Indent(&want, compact.Bytes(), "", strings.Repeat(" ", n)); err != nil {
			t.Fatal(err)
		}
		if !kept || !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%s by %d: got\n%s\nwant\n%s", compact.Bytes(), n, got, want.Bytes())
		}
	})
}

// depthOf returns at least how deep in is nested.
func depthOf(in []byte) int {
	return bytes.Count(in, []byte("[")) + bytes.Count(in, []byte("{"))
}
