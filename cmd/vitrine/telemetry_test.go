package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/proxy/operator"
)

// operatorStatus is what /api/status of a running vitrine says.
func operatorStatus(r running) (told operator.Status, err error) {
	got, err := ask(http.DefaultClient, "http://"+r.operator.Addr().String()+"/api/status")
	if err != nil {
		return told, err
	}
	return told, json.Unmarshal([]byte(got.body), &told)
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
	if err := testkit.Retry(func() (err error) {
		before, err = operatorStatus(vitrine)
		for r, now := range before.Resources {
			if now.State != operator.StateIdle {
				err = fmt.Errorf("%s is %s", r, now.State)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
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
