package proxy

import (
	"maps"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// TestFieldsSentAreThoseOfTheInterface compares the answers with the lists of docs/interface.md.
func TestFieldsSentAreThoseOfTheInterface(t *testing.T) {
	text, err := os.ReadFile("../docs/interface.md")
	testkit.Must(t, err)
	_, table, _ := strings.Cut(string(text), "\n## 7. Response headers\n")
	table, rest, _ := strings.Cut(table, "\n## ")
	_, cors, _ := strings.Cut(rest, "\n## 9. CORS\n")
	cors, _, _ = strings.Cut(cors, "\n## ")
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^- `([^`…]+)`[: ]").FindAllStringSubmatch(table+cors, -1) {
		documented[http.CanonicalHeaderKey(row[1])] = true
	}
	unsent := maps.Clone(documented)
	delete(unsent, "Strict-Transport-Security") // over TLS: TestUnixSocketsAndTLSAreServedAsAnyOther
	for _, origins := range [][]string{{"*"}, {"https://shop.example"}, nil} {
		r, expand := newRuleRig(t, Options{CORSOrigins: origins, HSTS: time.Hour})
		r.sources[shape.Rules].fail(upstream.ErrUnreachable)
		for _, request := range []string{
			getBanners, getBanners + "Accept-Encoding: gzip", getBanners + "If-None-Match: TAG", "HEAD " + bannersPath, "OPTIONS /gvapp/",
			"OPTIONS " + bannersPath + "\nAccess-Control-Request-Method: GET", "GET /gvapp", "GET /nope", "POST /gvapp/", "BREW /gvapp/",
			getBanners + "Accept: image/avif", "GET /cms/rules/", "GET /gvapp/?" + strings.Repeat("x", 5000),
		} {
			line, fields, _ := strings.Cut(expand.Replace(request), "\n")
			got := r.send(t, strings.TrimSuffix(line+" HTTP/1.1\nHost: example.org\nOrigin: https://shop.example\n"+fields, "\n"))
			for name := range got.Header {
				delete(unsent, name)
				if !documented[name] && name != "Connection" {
					t.Errorf("%.40s: %s is not documented", request, name)
				}
			}
		}
	}
	if len(documented) < 20 || len(unsent) > 0 {
		t.Errorf("%d fields are documented, and never sent %v", len(documented), unsent)
	}
}
