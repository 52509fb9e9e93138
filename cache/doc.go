// Package cache is the read-through cache between the proxy and the loader of a document. It knows
// bytes, times and tokens; it does not know what a banner is.
//
// [Reader.Get] looks at the copy in memory: while it is fresh and Redis is known to hold it, that copy
// is the answer, without a lock, an allocation or I/O. Otherwise Redis is asked, in one round trip
// that concurrent readers share. If no document is there, or it has to be refreshed, a flight starts:
// it acquires the lease, loads, and fills if nobody has purged since. Where another process has the
// lease, the flight waits for its fill to be announced.
//
// Nine notions carry this:
//
//   - A mark is taken before Redis is asked ([watch.Mark]). It shows later whether anything was
//     received since.
//   - Received are the changes that Redis announces on the listening connection ([watch.Received]).
//   - A look is one reading of Redis (look.go).
//   - A lease is the right to fetch for all processes ([lease.Lease]).
//   - A flight is one attempt to get a document, for all who wait in this process (flight.go).
//   - A place is where Redis is in its history of a document ([lease.Place]): it counts the writes.
//   - A fate is what became of a copy between two places: kept, purged or lost (fate.go).
//   - An origin is where a copy came from: stored in Redis, refused by it, loaded alone, or lost by it
//     (decide.go).
//   - A copy is due when it is to be fetched again, whatever its age.
//
// See docs/coherence.md for what is guaranteed and why.
package cache
