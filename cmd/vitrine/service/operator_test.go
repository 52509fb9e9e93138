package service

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/proxy/operator"
	"vitrine/proxy/verdict"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// operatorStatus is what /api/status of a running vitrine says.
func operatorStatus(r running) (told operator.Status, err error) {
	got, err := testkit.Ask(http.DefaultClient, "http://"+r.operator.Addr().String()+"/api/status")
	if err != nil {
		return told, err
	}
	return told, json.Unmarshal([]byte(got.Body), &told)
}

func TestLookingFetchesNothing(t *testing.T) {
	t.Parallel()
	vitrine := start(t, "VITRINE_TTL=1s")
	vitrine.allAnswer(t, "hit")
	var before operator.Status
	testkit.Must(t, testkit.Retry(func() (err error) {
		before, err = operatorStatus(vitrine)
		for r, now := range before.Resources {
			if now.State != verdict.StateIdle {
				err = fmt.Errorf("%s is %s", r, now.State)
			}
		}
		return err
	}))
	for range 10 {
		after, err := operatorStatus(vitrine)
		testkit.Must(t, err)
		for r, now := range after.Resources {
			if now.Fetches != before.Resources[r].Fetches || now.Fetching {
				t.Errorf("%s was fetched %d times, and %d before anybody looked", r, now.Fetches, before.Resources[r].Fetches)
			}
		}
	}
}

func TestTheAccessLogIsSwitchedOnWhateverTheLevelOfTheRest(t *testing.T) {
	t.Parallel()
	for access, want := range map[string]int{"on": 1, "off": 0} {
		log := new(testkit.Buffer)
		vitrine := startWith(t, settings(t, "VITRINE_LOG_ACCESS="+access, "VITRINE_LOG_LEVEL=error", "VITRINE_LOG_FORMAT=json"), log)
		vitrine.get(t, shape.Rules)
		testkit.Check(t, vitrine.stop())
		if got := log.String(); strings.Count(got, `"msg":"request",`) != want || strings.Count(got, "\n") != want {
			t.Errorf("%s: logged %s", access, got)
		}
	}
}

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

// TestADeliveryThatRedisDoesNotPurgeIsToBeRepeated: it is not accepted.
func TestADeliveryThatRedisDoesNotPurgeIsToBeRepeated(t *testing.T) {
	t.Parallel()
	cms, relay := upstreamtest.New(t), redistest.NewRelay(t, redistest.Start(t).Addr)
	r := startWith(t, settings(t, "VITRINE_UPSTREAM_URL="+cms.URL, "VITRINE_REDIS_URL="+relay.URL(), "VITRINE_HOOK_SECRET=a-secret-of-the-hook"), t.Output())
	r.allAnswer(t, "hit")
	relay.Cut()
	if status, got := r.deliver(t, "{}"); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", status, got)
	}
	fetched := cms.Count(shape.Rules)
	relay.Heal()
	testkit.Eventually(t, "it is accepted", func() bool {
		status, _ := r.deliver(t, "{}")
		return status == http.StatusAccepted
	})
	testkit.Eventually(t, "the rules are fetched again", func() bool {
		r.get(t, shape.Rules)
		return cms.Count(shape.Rules) > fetched
	})
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
			if got := r.get(t, "banners"); got.Status != http.StatusOK {
				t.Errorf("%d", got.Status)
			}
		})
	}
}
