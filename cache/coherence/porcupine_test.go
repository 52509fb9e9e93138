package coherence

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// The second verdict on a history is that of a linearizability checker by others. A document is a
// register there that only grows: a purge writes its version, and an answer reads that version or a
// newer one. The register may lag by the bound, so that a read may take effect as early as that
// before it was asked for, and a purge as late as when it was acknowledged. In a register that only
// grows, if these moments are wrong all others are, so that each operation is given its own alone.

// judged is how long a history may take to judge; one that takes longer is not found right.
const judged = 10 * time.Second

// access is one operation on the register.
type access struct {
	purge   bool
	version int64
}

var register = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		at, a := state.(int64), input.(access)
		if a.purge {
			return true, max(at, a.version)
		}
		return a.version >= at, at
	},
}

// judge gives what porcupine finds wrong: all answers are held to the hard purges, and those that
// are not said to be stale to the soft ones as well.
func (c *checker) judge() (wrong []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all, fresh []porcupine.Operation
	for i, o := range c.observers {
		all, fresh = append(all, c.reads(i, o.all)...), append(fresh, c.reads(i, o.fresh)...)
	}
	for _, p := range c.purges {
		op := operation(len(c.observers), access{true, p.version}, p.acked)
		if !p.soft {
			all = append(all, op)
		}
		fresh = append(fresh, op)
	}
	for name, history := range map[string][]porcupine.Operation{"all answers": all, "fresh answers": fresh} {
		if result := porcupine.CheckOperationsTimeout(register, history, judged); result != porcupine.Ok {
			wrong = append(wrong, fmt.Sprintf("porcupine on %d operations, %s: %s", len(history), name, result))
		}
	}
	return wrong
}

// reads are the last of each run: if it may read that version, so may those before it.
func (c *checker) reads(client int, runs []run) []porcupine.Operation {
	ops := make([]porcupine.Operation, 0, len(runs))
	for _, r := range runs {
		ops = append(ops, operation(client, access{false, r.version}, r.last-c.bound))
	}
	return ops
}

func operation(client int, a access, at time.Duration) porcupine.Operation {
	return porcupine.Operation{ClientId: client, Input: a, Call: int64(at), Return: int64(at)}
}
