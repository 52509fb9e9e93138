package operator

import (
	"strings"
	"testing"
)

func TestProfilesAreThereOnlyWhenSwitchedOnAndWithTheToken(t *testing.T) {
	for profiles, want := range map[bool]int{false: 404, true: 200} {
		_, url := start(t, Options{Profiles: profiles, Token: "open-sesame"})
		const path = "/debug/pprof/goroutine?debug=1"
		if resp := askAs(t, url+path, "Bearer another"); resp.status != 401 {
			t.Errorf("on %v, without the token: %d", profiles, resp.status)
		}
		if resp := askAs(t, url+path, "Bearer open-sesame"); resp.status != want || profiles != strings.Contains(resp.body, "goroutine profile") {
			t.Errorf("on %v: %d", profiles, resp.status)
		}
	}
}
