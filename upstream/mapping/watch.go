package mapping

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// The memory that programs may take while they run: a base, and a multiple of the responses' size.
const (
	programMemory = 64 << 20
	programFactor = 6
)

// taken is the memory that all that runs at present may take: nobody can tell whose the heap is.
var taken atomic.Int64

// Take allows for the memory of work on so many bytes, until it is released.
func Take(received int) (release func()) {
	most := int64(programMemory + programFactor*received)
	taken.Add(most)
	return func() { taken.Add(-most) }
}

// Watch returns a context for programs on so many bytes received, which ends when the heap has
// grown by more than they may take, and whatever else runs beside them. A program looks at its
// context between two of its steps, so a single call that takes gigabytes is not stopped. The
// caller calls stop, which waits.
func Watch(ctx context.Context, received int) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	release := Take(received)
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	heap := func() int64 {
		metrics.Read(sample)
		return int64(sample[0].Value.Uint64()) //nolint:gosec // no heap is that large
	}
	before, done := heap(), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-watched.Done():
				return
			case <-ticker.C:
			}
			if heap()-before <= taken.Load() {
				continue
			}
			runtime.GC() // garbage does not count
			if most := taken.Load(); heap()-before > most {
				cancel(fmt.Errorf("%w: it takes more than %d MiB of memory", ErrProgram, most>>20))
			}
		}
	}()
	return watched, func() {
		cancel(nil)
		<-done
		release()
	}
}
