// Package cache is the read-through cache between the proxy and whatever a document is loaded from.
// It knows bytes, times and tokens; it does not know what a banner is.
//
// One read goes through it like this. [Reader.Get] looks at the copy in memory: while it is fresh, nothing has
// invalidated it, and Redis was heard on the watching connection within the last few hundredths of a second, that
// copy is the answer, without a lock, an allocation or I/O. Otherwise one goroutine asks Redis, in one round trip,
// what it holds, and everybody who came meanwhile shares the answer. A document there that is fresh, or stale and
// still servable, is admitted to memory and given out. If there is none, or it has to be refreshed, a flight starts:
// it acquires the lease that lies under the very key it will fill, loads, and fills if the lease is still its own.
// Where another process holds the lease, the flight waits until the watcher hears of that process's fill.
//
// Purging is writing to the key. DEL removes lease and content together, so that the late fill of a fetch that began
// before is refused, and the watcher tells every process to forget its copy. See docs/coherence.md for what is
// guaranteed and why.
package cache
