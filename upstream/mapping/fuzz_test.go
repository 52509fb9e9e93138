package mapping

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
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

// FuzzReadable holds that texts become Unicode, and that nothing else changes.
func FuzzReadable(f *testing.F) {
	for _, s := range []string{`["\ud83d"]`, "[\"\xff\xfe\"]", `{"\udc00":"\ud83d\ude00"}`, "\xff", `["\`, `["\u`, `["\ud8`, `["\\ud83d\"\ud83d"]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		out, garbled := Readable("in", body)
		if (garbled.Count == 0) != bytes.Equal(out, body) || len(garbled.Paths) > min(5, garbled.Count) {
			t.Fatalf("%q: %q, %+v", body, out, garbled)
		}
		lenient := jsontext.Value(bytes.Clone(body))
		if lenient.IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) &&
			!jsontext.Value(out).IsValid(jsontext.AllowDuplicateNames(true)) {
			t.Fatalf("%q is no JSON any more: %q", body, out)
		}
		if again, found := Readable("in", out); found.Count != 0 || !bytes.Equal(again, out) {
			t.Fatalf("%q: %q, then %q", body, out, again)
		}
	})
}
