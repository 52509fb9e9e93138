// Package coherence runs the campaigns of vitrine/cache/coherence in full: random purges on fleets
// of replicas, while Redis, the CMS and the links between break in every way there is. -seed
// repeats a run's purges and pauses, and LONG_VOLUME=n makes n times as many.
package coherence

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"vitrine/cache/coherence"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
)

var seed = flag.Uint64("seed", 0, "of the campaigns; 0: the clock's")

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		os.Exit(child(spec))
	}
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64N(1e9)
	}
	_, _ = fmt.Fprintf(os.Stdout, "-seed %d\n", *seed)
	os.Exit(m.Run())
}

// count is n times the volume.
func count(t *testing.T, n int) int64 {
	t.Helper()
	return int64(n * harness.Volume(t))
}

// run purges until so many are acknowledged, and gives the verdict.
func run(t *testing.T, c *coherence.Campaign, purges int64) {
	t.Helper()
	c.Seed, c.Kinds = *seed, coherence.All
	c.Begin(t)
	testkit.Within(t, 10*time.Minute, "the purges are made", func() bool { return c.Acked.Load() >= purges || t.Failed() })
	v := c.End()
	c.Report(t, v)
	c.MostlyHeld(t, v)
	judge(t, v)
}

// judge has a linearizability checker by others look at the histories. A document is a register
// there that only grows: a purge writes its version, and an answer reads that version or a newer
// one. The register may lag by the bound, so that a read may take effect as early as that before it
// was asked for, and a purge as late as when it was acknowledged. In a register that only grows, if
// these moments are wrong all others are, so that each operation is given its own alone.
func judge(t *testing.T, v coherence.Verdict) {
	t.Helper()
	register := porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, _ any) (bool, any) {
			at, a := state.(int64), input.(coherence.Access)
			if a.Purge {
				return true, max(at, a.Version)
			}
			return a.Version >= at, at
		},
	}
	wrong := 0
	for _, history := range v.Histories {
		operations := make([]porcupine.Operation, 0, len(history))
		for _, a := range history {
			operations = append(operations, porcupine.Operation{ClientId: a.Client, Input: a, Call: int64(a.At), Return: int64(a.At)})
		}
		// One that takes longer is not found right.
		if result := porcupine.CheckOperationsTimeout(register, operations, 10*time.Second); result != porcupine.Ok {
			t.Logf("porcupine on %d operations: %s", len(history), result)
			wrong++
		}
	}
	if (wrong > 0) != (len(v.Violations) > 0) {
		t.Errorf("of %d histories porcupine finds %d wrong, and the checker %d purges", len(v.Histories), wrong, len(v.Violations))
	}
}

var must = testkit.Must

var eventually = testkit.Eventually
