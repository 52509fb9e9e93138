package operator

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestProfilesAreThereOnlyWhenSwitchedOnAndWithTheToken(t *testing.T) {
	for _, on := range []bool{false, true} {
		s := newServer(t, Options{Profiles: on, Token: "a-token-of-some-length"})
		server := httptest.NewServer(s.http.Handler)
		t.Cleanup(server.Close)
		ask := func(token string) (int, string) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/debug/pprof/goroutine?debug=1", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := server.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, string(body)
		}
		if status, _ := ask("another"); status != http.StatusUnauthorized {
			t.Errorf("on %v, without the token: %d", on, status)
		}
		status, body := ask("a-token-of-some-length")
		if on != (status == http.StatusOK && strings.Contains(body, "goroutine profile")) || !on && status != http.StatusNotFound {
			t.Errorf("on %v: %d", on, status)
		}
	}
}
