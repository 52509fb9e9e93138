package operator

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
)

// asked is an answer, read whole.
type asked struct {
	status int
	header http.Header
	body   string
}

// askAs asks with the given Authorization header.
func askAs(t *testing.T, url, authorization string) asked {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	testkit.Must(t, err)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	testkit.Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	return asked{resp.StatusCode, resp.Header, string(body)}
}

func TestATokenIsAskedForByEverythingButTheHealthChecks(t *testing.T) {
	_, url := start(t, Options{Token: "open-sesame"})
	for _, path := range []string{"/livez", "/readyz"} {
		if resp := askAs(t, url+path, ""); resp.status != 200 {
			t.Errorf("%s: %d", path, resp.status)
		}
	}
	for _, path := range []string{"/", "/api/status", "/metrics", "/openapi.json", "/nothing", "/livez/", "//livez", "/x/../livez"} {
		resp := askAs(t, url+path, "")
		if resp.status != 401 || len(resp.header.Values("WWW-Authenticate")) != 2 || strings.Contains(resp.body, "sesame") {
			t.Errorf("%s: %+v", path, resp)
		}
	}
	for authorization, want := range map[string]int{
		"Bearer open-sesame":                 200,
		"bearer  open-sesame":                200,
		"Basic b3BlcmF0b3I6b3Blbi1zZXNhbWU=": 200, // operator:open-sesame
		"Basic Om9wZW4tc2VzYW1l":             200, // :open-sesame
		"Bearer open-sesam":                  401,
		"Bearer open-sesame2":                401,
		"Bearer ":                            401,
		"Bearer":                             401,
		"Basic b3Blbi1zZXNhbWU6":             401, // open-sesame:
		"open-sesame":                        401,
	} {
		if resp := askAs(t, url+"/api/status", authorization); resp.status != want {
			t.Errorf("%q: %d, want %d", authorization, resp.status, want)
		}
	}
}
