package mapping

import (
	"net/http"
	"strings"
	"testing"
)

// FuzzNextLink: a link is a part of the header, and parameters before rel=next change nothing.
func FuzzNextLink(f *testing.F) {
	for _, s := range []string{
		`</a?page=2>; rel="next"`, `</a>; rel=prev, </b>; rel=next`, `<a>; title="x, <y>; rel=next"; rel="next"`, `<`, `<>;;;=,`, `<a>; rel="\"`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		found := NextLink(http.Header{"Link": {value}})
		if !strings.Contains(value, found) {
			t.Fatalf("%q: %q", value, found)
		}
		if again := NextLink(http.Header{"Link": {`</x>; rel="prev"`, value}}); again != found {
			t.Fatalf("%q: %q, after another line %q", value, found, again)
		}
	})
}
