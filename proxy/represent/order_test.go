package represent

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/proxy/negotiate"
	"vitrine/upstream/shape"
)

func TestEveryDocumentedFieldCanBeOrderedBy(t *testing.T) {
	names := shape.BannerFields()
	// Each field by itself tells two banners apart that differ in nothing else, so none compares
	// another's field.
	for i, name := range names {
		value := `"2023-06-01T00:00:00.000000Z"`
		switch {
		case name == "id":
			value = "1"
		case strings.HasPrefix(name, "language"):
			value = "true"
		}
		doc, err := shape.Normalize(shape.Banners, []byte(`[{"id":0},{"id":0,"`+name+`":`+value+`}]`))
		testkit.Must(t, err)
		b := doc.Banners()
		for j := range names {
			want := 0
			if i == j {
				want = -1
			}
			if got := b[0].Compare(&b[1], j); got != want {
				t.Errorf("%s: banners that differ in %s compare %d, want %d", names[j], names[i], got, want)
			}
		}
	}
}

// FuzzOrder: an ordering gives the same banners, each no greater than the next, equal ones in the
// order they had, and the document of them is what encoding them anew would write.
func FuzzOrder(f *testing.F) {
	for _, s := range []string{"", "-redirect_link_fr", "language_en,-id", "%20id%2C-title_nl", "+-id", "%zz,%C2%A0id", "id,-id"} {
		f.Add(s)
	}
	body, err := os.ReadFile("../../upstream/sample/banners.json")
	testkit.Must(f, err)
	d, err := shape.Normalize(shape.Banners, body)
	testkit.Must(f, err)
	b := banners(d.Banners())
	f.Fuzz(func(t *testing.T, encoded string) {
		o := negotiate.ParseOrdering([]byte(encoded))
		order := b.order(o)
		if order == nil {
			order = make([]int32, len(b))
			for i := range order {
				order[i] = int32(i)
			}
		}
		var sorted [][]byte
		for i, at := range order {
			sorted = append(sorted, b[at].JSON)
			if i == 0 {
				continue
			}
			before, c := order[i-1], 0
			for _, term := range o.Terms() {
				if c = b[before].Compare(&b[at], int(term.Field)); c != 0 {
					if term.Descending {
						c = -c
					}
					break
				}
			}
			if c > 0 || c == 0 && before >= at {
				t.Fatalf("%q: banner %d stands before %d", encoded, before, at)
			}
		}
		slices.Sort(order)
		for i, at := range order {
			if int(at) != i {
				t.Fatalf("%q: %v is no order of %d banners", encoded, order, len(b))
			}
		}
		if got, want := string(items{b, b.order(o)}.appendTo(nil)), "["+string(bytes.Join(sorted, comma))+"]"; b.order(o) != nil && got != want {
			t.Fatalf("%q: %.200s, want %.200s", encoded, got, want)
		}
	})
}
