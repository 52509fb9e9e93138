// Package cache is the read-through cache between the proxy and the loader of a document. It knows
// bytes, times and tokens; it does not know what a banner is.
//
// One [Reader.Get] goes like this:
//
//  1. it loads the view. If the copy in it is fresh, and the last answered poll was sent less than the
//     trust window before, that is the answer: no lock, allocation or I/O (view.go);
//  2. otherwise it waits for the next view. A table says what the visitor gets: the copy, the copy and
//     a load in the background, or the document of a load (view.go);
//  3. the keeper begins the load: it acquires the lease, in front of a poll (begin.go);
//  4. a flight loads the document, has it held back if the guard objects (hold.go), and fills Redis
//     (flight.go). Its reply is an outcome (outcome.go); the next poll shows what Redis has;
//  5. what was stored enters the history (history.go), and is an event (report.go).
//
// One purge goes like this:
//
//  1. [lease.Question] reads that the hash is gone, or that its fresh_until is 0;
//  2. the loop in [vitrine/cache/poll] passes that on, with when it was sent;
//  3. keeper.apply compares generations: became says that the copy was purged (generation.go); a soft
//     purge makes it stale (copy.go); a load under way is void (keeper.go);
//  4. keeper.publish stores the view without the copy, and wakes those who wait;
//  5. [Reader.Get] finds no copy in it, and waits for a load.
//
// See docs/coherence.md for the guarantees, and docs/design/coherence.md for the reasons.
package cache
