package shape

import (
	"slices"
	"testing"
)

func TestListsOfADocumentAreThoseThatNormalizingCounted(t *testing.T) {
	for _, c := range []struct {
		resource Resource
		name     string
	}{{Catalogue, "gvapp-get"}, {Rules, "rules-get"}, {Banners, "edge-singlebanner"}} {
		doc, err := Normalize(c.resource, recorded(t, c.name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Lists(c.resource, doc.Body)
		if err != nil || !slices.Equal(got, doc.Lists) || got[0].Items == 0 {
			t.Errorf("%s: counted %v (%v), normalizing %v", c.name, got, err, doc.Lists)
		}
	}
}

func TestWhatIsNoDocumentHasNoLists(t *testing.T) {
	for _, body := range []string{"", "{", "[", `{"artist":`, `{"artist":1}`, `{"artist":[}`, "null", "1"} {
		if got, err := Lists(Catalogue, []byte(body)); err == nil {
			t.Errorf("%q: %v", body, got)
		}
	}
	if got, err := Lists("artists", []byte("[]")); err == nil {
		t.Errorf("no such resource: %v", got)
	}
}
