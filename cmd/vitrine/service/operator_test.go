package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/config"
	"vitrine/proxy/operator"
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

func TestReplicasOnOneRedisAreListedAndAgree(t *testing.T) {
	t.Parallel()
	one := start(t)
	two := start(t, "VITRINE_REDIS_URL=redis://"+one.store.Addr())
	one.allAnswer(t, "hit")
	two.allAnswer(t, "hit")
	lists := func(n int) func() error {
		return func() error {
			told, err := operatorStatus(one)
			if err != nil {
				return err
			}
			if !told.Replicas.Known || !told.Replicas.Agree || len(told.Replicas.List) != n {
				return fmt.Errorf("want %d that agree, got %+v", n, told.Replicas)
			}
			for _, r := range told.Replicas.List {
				if len(r.ETags) != 3 || r.Source == "" || r.Version == "" || time.Since(r.Started) > time.Minute {
					return fmt.Errorf("a report is not whole: %+v", r)
				}
			}
			return nil
		}
	}
	testkit.Must(t, testkit.Retry(lists(2)))
	testkit.Must(t, two.stop())
	if err := testkit.Retry(lists(1)); err != nil {
		t.Errorf("after one has stopped: %v", err)
	}
}

func TestLookingFetchesNothing(t *testing.T) {
	t.Parallel()
	vitrine := start(t, "VITRINE_TTL=1s")
	vitrine.allAnswer(t, "hit")
	var before operator.Status
	testkit.Must(t, testkit.Retry(func() (err error) {
		before, err = operatorStatus(vitrine)
		for r, now := range before.Resources {
			if now.State != operator.StateIdle {
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
	for access, want := range map[string]string{
		"on": `"msg":"request",`, "combined": `"GET /cms/rules/ HTTP/1.1" 200 `,
	} {
		path := filepath.Join(t.TempDir(), "access.log")
		vitrine := start(t, "VITRINE_LOG_ACCESS="+access, "VITRINE_LOG_ACCESS_PATH="+path, "VITRINE_LOG_LEVEL=error", "VITRINE_LOG_FORMAT=json")
		vitrine.get(t, shape.Rules)
		testkit.Check(t, vitrine.stop())
		if got, err := os.ReadFile(path); err != nil || strings.Count(string(got), "\n") != 1 || !strings.Contains(string(got), want) {
			t.Errorf("%s: %v, logged %s", access, err, got)
		}
	}
	cfg := settings(t, "VITRINE_LOG_ACCESS=combined", "VITRINE_LOG_ACCESS_PATH=/nowhere/access.log")
	_, err := begun(t, cfg, Options{Stdout: io.Discard, Stderr: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "VITRINE_LOG_ACCESS_PATH") {
		t.Errorf("a file that cannot be written: %v", err)
	}
}

func TestDurationsInJSONNameTheirUnit(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(&out, config.Log{Level: "info", Format: "json"}).With("wait", 250*time.Millisecond)
	log.Info("stopping", "timeout", 8*time.Second, "delay", time.Duration(0))
	if got := out.String(); !strings.Contains(got, `"wait_seconds":0.25,"timeout_seconds":8,"delay_seconds":0}`) {
		t.Error(got)
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

// TestADeliveryIsPurgedOnceRedisIsBackAlsoAcrossAReload: it was accepted.
func TestADeliveryIsPurgedOnceRedisIsBackAlsoAcrossAReload(t *testing.T) {
	t.Parallel()
	cms, relay := upstreamtest.New(t), redistest.NewRelay(t, redistest.Start(t).Addr)
	cfg := settings(t, "VITRINE_UPSTREAM_URL="+cms.URL, "VITRINE_REDIS_URL="+relay.URL(), "VITRINE_HOOK_SECRET=a-secret-of-the-hook")
	r := startWith(t, cfg, t.Output())
	r.allAnswer(t, "hit")
	relay.Cut()
	if status, got := r.deliver(t, "{}"); status != http.StatusAccepted {
		t.Errorf("%d %s", status, got)
	}
	testkit.Must(t, r.reload(cfg))
	fetched := cms.Count(shape.Rules)
	relay.Heal()
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
