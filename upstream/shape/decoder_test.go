package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
)

// normalized is Normalize where no refusal is expected.
func normalized(t *testing.T, r Resource, in string) Document {
	t.Helper()
	doc, err := Normalize(r, []byte(in))
	if err != nil {
		t.Fatalf("%s: %v", in, err)
	}
	return doc
}

func TestWhatIsNotJSONIsRefusedWithItsPlace(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "banners: want a JSON document, got nothing"},
		{" \r\n\t", "banners: want a JSON document, got nothing"},
		{"\uFEFF", "banners: want a JSON document, got nothing"},
		{"<!DOCTYPE html>", "banners: want JSON, got <!DOCTYPE html> at offset 0"},
		{`[{"id":"` + strings.Repeat("é", 50) + `"}]`, `banners[0].id: want an integer, got "` + strings.Repeat("é", 39) + `…"`},
		{`[{"id":"` + strings.Repeat("x", 38) + `"}]`, `banners[0].id: want an integer, got "` + strings.Repeat("x", 38) + `"`},
		{"<html>\n" + strings.Repeat("x", 99), "banners: want JSON, got <html>\\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… at offset 0"},
		{`[{"id":1}`, "banners[1]: want the rest of the document, got its end after 9 bytes"},
		{`[{"id":1},`, "banners[1]: want the rest of the document, got its end after 10 bytes"},
		{`[{"id":`, "banners[0].id: want the rest of the document, got its end after 7 bytes"},
		{`[{"id":1,"title_en":"a`, "banners[0].title_en: want the rest of the document, got its end after 22 bytes"},
		{`[{"id":1} {"id":2}]`, `banners[1]: want JSON, got {"id":2}] at offset 10`},
		{`[{"id":1},]`, "banners[1]: want JSON, got ,] at offset 9"},
		{`[{"id":1,}]`, "banners[0]: want JSON, got ,}] at offset 8"},
		{`[{"id" 1}]`, "banners[0].id: want JSON, got 1}] at offset 7"},
		{`[{id:1}]`, "banners[0]: want JSON, got id:1}] at offset 2"},
		{`[{1:1}]`, "banners[0]: want JSON, got 1:1}] at offset 2"},
		{`[{"id":01}]`, "banners[0]: want JSON, got 1}] at offset 8"},
		{`[{"id":+1}]`, "banners[0].id: want JSON, got +1}] at offset 7"},
		{`[{"id":NaN}]`, "banners[0].id: want JSON, got NaN}] at offset 7"},
		{`[{"id":1,"visible":Infinity}]`, "banners[0]: want JSON, got Infinity}] at offset 19"},
		{`[{"id":-}]`, "banners[0].id: want JSON, got }] at offset 8"},
		{`[{"id":"1`, "banners[0].id: want the rest of the document, got its end after 9 bytes"},
		{`[{"id":1,"title_en":nul}]`, "banners[0].title_en: want JSON, got }] at offset 23"},
		{`['a']`, "banners[0]: want JSON, got 'a'] at offset 1"},
		{`[] []`, "banners: want nothing after the document, got []"},
		{"[]\x00", `banners: want nothing after the document, got \x00`},
		{"[{\"id\":1,\"title_nl\":\"a\nb\"}]", `banners[0].title_nl: want JSON, got \nb"}] at offset 22`},
		{`[{"id":1,"title_nl":"\x41"}]`, `banners[0].title_nl: want JSON, got \x41"}] at offset 21`},
		{"[{\"id\":1,\"title_nl\":\"a\xffb\"}]", "banners[0].title_nl: want valid UTF-8, got byte 0xff at offset 22"},
		{"[{\"id\":1,\"title_nl\":\"\xed\xa0\x80\"}]", "banners[0].title_nl: want valid UTF-8, got byte 0xed at offset 21"},
		{"[{\"id\":1,\"x\":[\"\xc3\"]}]", "banners[0]: want valid UTF-8, got byte 0xc3 at offset 15"},
		{"[{\"\xc3\":1}]", "banners[0]: want valid UTF-8, got byte 0xc3 at offset 3"},
		{`[{"id":1,"title_nl":"\ud83c"}]`, `banners[0].title_nl: want valid Unicode, got \ud83c at offset 21`},
		{`[{"id":1,"title_nl":"\udfa8\ud83c"}]`, `banners[0].title_nl: want valid Unicode, got \udfa8 at offset 21`},
		{`[{"id":1,"x":"\ud83cA"}]`, `banners[0]: want valid Unicode, got \ud83c at offset 14`},
		{"\xff\xfe[\x00]\x00", "banners: want valid UTF-8, got byte 0xff at offset 0"},
		{`{"gallery":[{"id":1,"address":[{"id":1,"city":{"id":1,"order_num":nul`, "catalogue.gallery[0].address[0].city.order_num: want the rest of the document, got its end after 69 bytes"},
		{`[{"id":1,"exlude_pages":[{"a":tru}]}]`, "rules[0].exlude_pages[0].a: want JSON, got }]}] at offset 33"},
		{`[{"id":1,"exlude_pages":[{"a":1 2}]}]`, "rules[0].exlude_pages[0].a: want JSON, got 2}]}] at offset 32"},
		{`[{"id":1,"exlude_pages":[1 2]}]`, "rules[0].exlude_pages[1]: want JSON, got 2]}] at offset 27"},
	} {
		_, err := Normalize(Resource(regexp.MustCompile("^[a-z]+").FindString(c.want)), []byte(c.in))
		if err == nil || err.Error() != c.want {
			t.Errorf("%q\ngot  %v\nwant %s", c.in, err, c.want)
		}
	}
}

func TestDepthIsBounded(t *testing.T) {
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, field := range []string{"exlude_pages", "unknown"} {
		normalized(t, Rules, fmt.Sprintf(`[{"id":1,%q:%s}]`, field, nest(maxDepth-2)))
		for _, n := range []int{maxDepth - 1, 1_000_000} {
			_, err := Normalize(Rules, []byte(fmt.Sprintf(`[{"id":1,%q:%s}]`, field, nest(n))))
			if err == nil || !strings.HasSuffix(err.Error(), ": want at most 64 levels, got more") {
				t.Errorf("%s, %d levels: %.200v", field, n, err)
			}
		}
	}
	_, err := Normalize(Banners, []byte(strings.Repeat("[", 1_000_000)))
	if err == nil || err.Error() != "banners[0]: want an object, got a list" {
		t.Errorf("got %v", err)
	}
}

func TestUnknownFieldsAreDroppedAndCounted(t *testing.T) {
	doc := normalized(t, Catalogue, `{"artist":[],"artwork":[{"id":1,"title":"","description":"","tag":[],"price":{"eur":[1,"x"]},"a.b":null,"a\"\n":1}],"gallery":[],"page":1}`)
	if want := `{"artist":[],"artwork":[{"id":1,"title":"","description":"","tag":[]}],"gallery":[]}`; string(doc.Body) != want {
		t.Errorf("got %s, want %s", doc.Body, want)
	}
	want := []string{`catalogue.artwork[0].price`, `catalogue.artwork[0]["a.b"]`, `catalogue.artwork[0]["a\"\n"]`, `catalogue.page`}
	if got := doc.Repairs.Of(KindUnknown).Paths; !slices.Equal(got, want) || doc.Repairs.Total() != 4 {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNamesWithEscapesAreTheSameNames(t *testing.T) {
	doc := normalized(t, Banners, `[{"\u0069d":5}]`)
	if !bytes.HasPrefix(doc.Body, []byte(`[{"id":5,`)) || doc.Repairs.Of(KindUnknown).Count != 0 {
		t.Errorf("got %s, %v", doc.Body, doc.Repairs)
	}
}

func TestLastOfARepeatedFieldCountsAsInPython(t *testing.T) {
	for _, c := range []struct {
		r            Resource
		in, out, dup string
	}{
		{Banners, `[{"id":1,"id":2}]`, `[{"id":2,`, "banners[0].id"},
		{Banners, `[{"id":"x","id":1,"title_en":{"a":1},"title_en":"b"}]`, `[{"id":1,"title_en":"b"`, ""}, // who would be refused alone
		{Banners, `[{"title_en":"t","id":1,"title_en":null}]`, `[{"id":1,"title_en":"","title_nl"`, "banners[0].title_en"},
		{Catalogue, `{"artwork":[{"id":1}],"artist":[],"gallery":[],"artwork":null}`, `{"artist":[],"artwork":[],"gallery":[]}`, "catalogue.artwork"},
		{Catalogue, `{"artist":[{"id":1,"gallery_artists":{"id":1,"tag":["a","b"]},"gallery_artists":{"id":2}}]}`,
			`"gallery_artists":{"id":2,"title":"","art_kunstkoop":false,"kunst_aan_zet":false,"tag":[]}`, "catalogue.artist[0].gallery_artists"},
		{Rules, `[{"id":1,"exlude_pages":[{"a":1,"b":2,"a":{"c":1,"c":2}}]}]`, `"exlude_pages":[{"a":{"c":2},"b":2}]`, "rules[0].exlude_pages[0].a.c"},
	} {
		doc := normalized(t, c.r, c.in)
		if !strings.Contains(string(doc.Body), c.out) {
			t.Errorf("%s\ngot  %s\nwant %s", c.in, doc.Body, c.out)
		}
		if got := doc.Repairs.Of(KindDuplicate).Paths; c.dup != "" && (len(got) == 0 || got[0] != c.dup) {
			t.Errorf("%s: duplicates at %v, want %s", c.in, got, c.dup)
		}
	}
	for in, want := range map[string]string{
		`[{"id":2,"id":"x"}]`:                           `banners[0].id: want an integer, got "x"`,
		`[{"id":"x","id":1}`:                            `banners[0].id: want an integer, got "x"`,
		`[{"id":1,"title_en":1,"id":"x","title_nl":3}]`: `banners[0].title_en: want text, got 1`,
	} {
		if _, err := Normalize(Banners, []byte(in)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", in, err, want)
		}
	}
}

func TestFieldsOfNoKnownTypePassUntouchedButCompact(t *testing.T) {
	doc := normalized(t, Rules, `[{"id":1,
		"exlude_pages": [ { "z" : 1.0, "a" : [ ] , "\u0041\/" : "\u00e9\u2028\ud83c\udfa8\u0001\u007f<>&" }, 1E400, -0.0 ],
		"page_depth": {"b":{ },"a":12345678901234567890123}, "page_view_count": "x", "days_delay": false, "time": null}]`)
	want := `"exlude_pages":[{"z":1.0,"a":[],"A/":"é\u2028🎨\u0001` + "\x7f" + `<>&"},1E400,-0.0],"title":"",` +
		`"page_depth":{"b":{},"a":12345678901234567890123},"page_view_count":"x","days_delay":false,"time":null,"visible"`
	if !strings.Contains(string(doc.Body), want) {
		t.Errorf("got %s\nwant in it %s", doc.Body, want)
	}
}

func TestTextIsEscapedAsTheCMSEscapes(t *testing.T) {
	var all strings.Builder
	for r := range rune(0x80) {
		all.WriteRune(r)
	}
	all.WriteString("é’ \u2027\u2028\u2029\u202a\u205f \ufeff\ufffd\uffff🎨 \u00e2\u0080\u00a8")
	want := `"\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f` +
		`\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f` +
		` !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_` + "`abcdefghijklmnopqrstuvwxyz{|}~\x7f" +
		"é’ \u2027" + `\u2028\u2029` + "\u202a\u205f \ufeff\ufffd\uffff🎨 \u00e2\u0080\u00a8\""
	raw, err := json.Marshal(all.String())
	testkit.Must(t, err)
	doc := normalized(t, Banners, fmt.Sprintf(`[{"id":1,"title_en":%s}]`, raw))
	if !strings.Contains(string(doc.Body), want) {
		t.Errorf("got  %s\nwant %s", doc.Body, want)
	}
}

func TestRepairsAreBounded(t *testing.T) {
	const n = 100_000
	artwork := objectWith(documentedFields(t, "Artwork"), "tag", "["+strings.Repeat("null,", n-1)+"null]")
	doc := normalized(t, Catalogue, `{"artist":[],"gallery":[],"artwork":[`+artwork+`]}`)
	if got := doc.Repairs.Of(KindNull).Count; got != n || doc.Repairs.Total() != n {
		t.Errorf("%d repairs, %d in all, want %d", got, doc.Repairs.Total(), n)
	}
	if got := doc.Repairs.Of(KindNull).Paths; len(got) != maxPaths || got[1] != "catalogue.artwork[0].tag[1]" {
		t.Errorf("paths %v", got)
	}
	long := normalized(t, Banners, fmt.Sprintf(`[{"id":1,%q:1}]`, strings.Repeat("é", n)))
	if got := long.Repairs.Of(KindUnknown).Paths[0]; len(got) > 100 {
		t.Errorf("a path of %d bytes", len(got))
	}
	_, err := Normalize(Banners, []byte(fmt.Sprintf(`[{"id":%q}]`, strings.Repeat("é", n))))
	if err == nil || len(err.Error()) > 200 {
		t.Errorf("a message of %d bytes", len(fmt.Sprint(err)))
	}
}

func TestADocumentIsBoundedAsItIsWritten(t *testing.T) {
	in := []byte("[" + strings.Repeat(`{"id":1},`, 10_000) + `{"id":1}]`)
	whole, err := Read(Banners, in, Options{MaxBytes: 100 * len(in)})
	testkit.Must(t, err)
	_, err = Read(Banners, in, Options{MaxBytes: len(whole.Body)})
	testkit.Check(t, err)
	for _, most := range []int{len(whole.Body) - 1, len(whole.Body) / 2, 1} {
		_, err = Read(Banners, in, Options{MaxBytes: most})
		if want := fmt.Sprintf(": want a document of at most %d bytes, got more", most); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestInputIsLeftAsItWas(t *testing.T) {
	in := recorded(t, "edge-gvapp")
	before := bytes.Clone(in)
	doc, err := Normalize(Catalogue, in)
	if err != nil || !bytes.Equal(in, before) {
		t.Fatalf("the input was changed (%v)", err)
	}
	body := bytes.Clone(doc.Body)
	clear(in)
	if !bytes.Equal(doc.Body, body) {
		t.Error("the document changes with its input")
	}
}

func TestRepairsInALog(t *testing.T) {
	doc := normalized(t, Banners, "\uFEFF"+`[{"id":"1","language_en":null}]`)
	if got := doc.Repairs.Of(KindBOM).Paths; !slices.Equal(got, []string{"banners"}) {
		t.Errorf("a byte order mark at %v", got)
	}
	var kinds []Kind
	for _, r := range doc.Repairs {
		kinds = append(kinds, r.Kind)
	}
	if got, want := fmt.Sprint(kinds), "[bom missing null integer]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("normalized", "repairs", doc.Repairs)
	for _, want := range []string{"repairs.total=16", "repairs.integer.count=1", "repairs.integer.paths=[banners[0].id]"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got %s, want in it %s", &b, want)
		}
	}
	if (Repairs{}).Total() != 0 || (Repairs{}).Of("x").Count != 0 || (Repairs{}).Of("x").Paths != nil {
		t.Error("the zero value holds something")
	}
}
