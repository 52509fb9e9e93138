package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// deliver sends a body to the webhook, and returns the status and the answer.
func (r running) deliver(t *testing.T, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.operator.Addr().String()+"/hooks/content", strings.NewReader(body))
	testkit.Must(t, err)
	request.Header.Set("Authorization", "Bearer a-secret-of-the-hook")
	response, err := http.DefaultClient.Do(request)
	testkit.Must(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	testkit.Must(t, err)
	return response.StatusCode, string(answer)
}

func TestTheProgramsOfTheHookSelectWhatIsPurged(t *testing.T) {
	r := start(t, "VITRINE_HOOK_SECRET=a-secret-of-the-hook", "VITRINE_HOOK_MATCH_BANNERS=.model == \"banner\", false",
		"VITRINE_HOOK_MATCH_CATALOGUE=.model | select(IN(\"artist\", \"gallery\"))")
	for body, want := range map[string]string{
		`{"model":"banner"}`: `{"purging":["rules","banners"]}`,
		`{"model":"artist"}`: `{"purging":["catalogue","rules"]}`,
		`{"model":"other"}`:  `{"purging":["rules"]}`,
		`{`:                  `{"purging":["rules"]}`, // which has no predicate
		`[]`:                 `{"purging":["rules"]}`,
	} {
		if status, got := r.deliver(t, body); strings.TrimSpace(got) != want || (status == http.StatusAccepted) != strings.Contains(want, "purging") {
			t.Errorf("%s: %d %s, want %s", body, status, got, want)
		}
	}
}

// TestAProgramOfTheHookThatDoesNotEndEndsWithItsDelivery has programs that would take all memory,
// or a processor for ever.
func TestAProgramOfTheHookThatDoesNotEndEndsWithItsDelivery(t *testing.T) {
	for _, program := range []string{"[range(1e12)]", "def f: [f]; f", "last(repeat(0))"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			r := start(t, "VITRINE_HOOK_SECRET=a-secret-of-the-hook", "VITRINE_HOOK_MATCH_BANNERS="+program, "VITRINE_HOOK_MATCH_RULES=false", "VITRINE_HOOK_MATCH_CATALOGUE=false")
			began := time.Now()
			if status, got := r.deliver(t, `{}`); status != http.StatusBadRequest {
				t.Errorf("%d %s", status, got)
			}
			if took := time.Since(began); took > testkit.Patience {
				t.Errorf("it took %v", took)
			}
			if got := r.get(t, "banners"); got.status != http.StatusOK {
				t.Errorf("%d", got.status)
			}
		})
	}
}
