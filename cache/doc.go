// Package cache is the read-through cache between the proxy and the loader of a document. It knows
// bytes, times and tokens; it does not know what a banner is.
//
// [Reader.Get] looks at the copy in memory: while it is fresh, not invalidated, and the watching
// connection was alive within the last few hundredths of a second, that copy is the answer, without
// a lock, an allocation or I/O. Otherwise one goroutine reads Redis in one round trip, and
// concurrent readers share the result. A document there that is fresh, or stale and still servable,
// is admitted to memory and returned. If there is none, or it has to be refreshed, a flight starts:
// it acquires the lease under the key it will fill, loads, and fills if it still holds the lease.
// Where another process holds the lease, the flight waits until the watcher hears of that process's
// fill.
//
// Purging is writing to the key. DEL removes lease and content together, so that the late fill of a
// fetch that began before is refused, and the watcher tells every process to forget its copy. See
// docs/coherence.md for what is guaranteed and why.
package cache
