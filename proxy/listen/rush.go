package listen

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A rush is when requests come faster than one each rushPause. A connection that is about to wait for
// a request lets the others go first, then: its own has often come meanwhile, which saves a read in
// vain and the scheduler's work, an eighth of the time of a hit. Without a rush nobody else is
// there, and to look for them would wake another thread.
type rush struct {
	waits atomic.Uint32
	since atomic.Int64 // the last time that was compared, in nanoseconds
	on    atomic.Bool
}

const (
	rushPause = 50 * time.Microsecond
	// rushWaits is after how many waits the time is compared.
	rushWaits = 64
)

// wait counts a wait for a request at the time now, in nanoseconds since any moment.
func (r *rush) wait(now int64) {
	if r.waits.Add(1)%rushWaits == 0 {
		r.on.Store(now-r.since.Swap(now) < int64(rushWaits*rushPause))
	}
	if r.on.Load() {
		runtime.Gosched()
	}
}
