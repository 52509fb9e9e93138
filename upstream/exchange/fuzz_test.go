package exchange

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode"

	"vitrine/upstream/upstreamtest"
)

func FuzzContentType(f *testing.F) {
	for _, s := range []string{
		"", "application/json", "application/json; charset=utf-8", "text/html", "application/ld+json;charset=latin1",
		"application/json; charset*=utf-8''x", "a/b; c=\"\\", "application/json;charset=utf-8;charset=utf-16",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, kind string) {
		h := http.Header{"Content-Type": {kind}}
		err := checkType(h)
		if err == nil {
			media, params, err := mime.ParseMediaType(kind)
			if err != nil || !strings.HasSuffix(media, "json") || isHTML(media) ||
				!slices.Contains([]string{"", "utf-8", "utf8", "us-ascii", "ascii"}, strings.ToLower(params["charset"])) {
				t.Errorf("accepted %q", kind)
			}
			return
		}
		if len(err.Error()) > 1000 {
			t.Errorf("%d bytes to refuse %q", len(err.Error()), kind)
		}
	})
}

// FuzzWhatAnAnswerSays holds that any body is taken, or refused as content with nothing of it in
// the words but one.
func FuzzWhatAnAnswerSays(f *testing.F) {
	for _, cms := range []string{"drf", "directus", "strapi4", "strapi5", "wordpress"} {
		for _, name := range upstreamtest.Recordings(f, cms) {
			if strings.Contains(name, "error") || strings.Contains(name, "down") {
				_, body, _ := strings.Cut(string(upstreamtest.Recording(f, name)), "\r\n\r\n")
				f.Add([]byte(body))
			}
		}
	}
	for _, s := range []string{"", "\xef\xbb\xbf", "[", "{}", "<p>", `{"error":{"name":"a b","code":"X"}}`, `{"errors":[]}`, `{"error":"\u001b[31m"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		said, is := readEnvelope(body)
		if !is && said != (envelope{}) || said.name != "" && !wordPattern.MatchString(said.name) {
			t.Fatalf("%q: %+v, %t", body, said, is)
		}
		err := checkBody(body)
		if err == nil {
			return
		}
		found, ok := errors.AsType[*FaultError](err)
		if !ok || found.Kind != FaultDamaged && found.Kind != FaultPage {
			t.Fatalf("%q: %#v", body, err)
		}
		if text := fmt.Sprint(err); len(text) > 200 || strings.ContainsFunc(text, unicode.IsControl) {
			t.Fatalf("%q: %q", body, text)
		}
	})
}
