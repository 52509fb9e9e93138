package mapping

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// childName is the first argument of the binary when it runs programs for another process.
const childName = "vitrine-programs"

// init runs programs if the binary was started under that name: before main, so that it works in
// the command and in every test.
func init() {
	if len(os.Args) == 1 && os.Args[0] == childName {
		serve()
		os.Exit(0)
	}
}

// running is the name of the current program, for the message of a process that has to end.
var running atomic.Pointer[string]

// serve does jobs until there are no more.
func serve() {
	const stack = 64 << 20
	debug.SetMaxStack(stack)
	// If memory runs out, the kernel should kill this process first.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o600)
	var limit atomic.Int64
	limit.Store(math.MaxInt64) // watch may look before the first job comes
	go watch(&limit, os.Getppid())
	parent := newWire(os.Stdin, os.Stdout)
	for {
		limit.Store(math.MaxInt64) // reading a job takes what its responses do
		var j job
		if parent.receive(&j) != nil {
			return
		}
		limit.Store(int64(j.Memory))
		debug.SetMemoryLimit(int64(j.Memory))
		r := j.do()
		if parent.send(&r) != nil {
			return
		}
	}
}

// watch ends the process if it uses too much memory, or its parent is gone.
func watch(limit *atomic.Int64, parent int) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	for range time.Tick(time.Millisecond) {
		metrics.Read(sample)
		if most := uint64(max(limit.Load(), 0)); sample[0].Value.Uint64()+sample[1].Value.Uint64() > most {
			name := "a program"
			if at := running.Load(); at != nil {
				name = *at
			}
			fmt.Fprintf(os.Stderr, "%s: it takes more than %d MiB of memory\n", name, most>>20)
			os.Exit(3)
		}
		if os.Getppid() != parent {
			os.Exit(3)
		}
	}
}

func (j *job) do() (r reply) {
	defer func() {
		if p := recover(); p != nil {
			r = reply{Other: fmt.Sprint(p)}
		}
	}()
	var err error
	if j.Open != nil {
		j.Open.Body = j.body[0]
		r.Page, err = j.Open.run(context.Background())
	} else {
		r.Page.Items = make([][]byte, 1)
		r.Page.Items[0], err = j.Compose.run(context.Background(), nil)
	}
	if err != nil {
		r = reply{}
		r.setErr(err)
	}
	return r
}
