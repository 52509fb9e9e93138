// Package cache is the read-through cache between the proxy and the loader of a document. It knows
// bytes, times and tokens; it does not know what a banner is.
//
// One [Reader.Get] goes like this:
//
//  1. the copy in memory is the answer if it is fresh and Redis is known to hold it: without a
//     lock, an allocation or I/O (get.go);
//  2. otherwise a look asks Redis, in one round trip that concurrent readers share (look.go), and
//     the look decides whether the copy was kept, purged or lost (fate.go), and whether memory
//     takes Redis's document (decide.go);
//  3. a table says what the visitor gets: the copy, the copy and a load in the background, or the
//     document of a load (serve.go);
//  4. a load is a flight, one per document and process, which readers join (flight.go): it acquires
//     the lease, loads, holds the document back if the guard objects to it (hold.go), and fills
//     Redis if nobody has purged since. If another process has the lease, the flight waits until
//     that process's fill is announced;
//  5. a stored document enters the history (history.go), and each process reports what it sees
//     (sight.go).
//
// These terms recur:
//
//   - A mark is taken before Redis is asked, and shows later whether a change was received since
//     (watch.Mark). Received are those changes (watch.Received).
//   - A look is one reading of Redis.
//   - A lease is the right of one process to fetch (lease.Lease).
//   - A place is where Redis is in its history of a document: it counts the writes (lease.Place).
//   - A fate is what became of a copy between two places: kept, purged or lost.
//   - An origin is where a copy came from: stored in Redis, refused by it, loaded alone, or lost by
//     it.
//   - A copy is due when it is to be fetched again, whatever its age.
//
// See docs/coherence.md for the guarantees and the reasons.
package cache
