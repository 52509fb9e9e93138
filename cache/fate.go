package cache

import (
	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// A fate is what became of a copy in Redis since it was last confirmed.
type fate int

const (
	fateKept   fate = iota // nobody removed it: what Redis has can be compared with it
	fatePurged             // a client removed it
	fateLost               // Redis came back without it, or with an older state
)

// fateOf is the fate of a copy that was confirmed at was, or loaded when Redis was there, now that
// a look shows Redis at now; since is what was received in between. A look that it is given while
// listening was confirmed by a ping after it, where confirms says so.
//
// A purge removes the hash of the number that a copy was confirmed at, or is received. Without
// either, Redis that has another set, or an earlier number, has lost documents. docs/coherence.md
// says what this gives up.
func fateOf(was, now lease.Place, since watch.Received) fate {
	known := was.Set != ""
	here := known && now.Set == was.Set
	// Nothing was received, or one change that made a stub.
	plain := since.Changes == 0 || since.Changes == 1 && now.Holds != lease.Nothing
	switch {
	case since.Flushed && !here:
		// Of another database, if nothing of vitrine's is there now, was then, or came in between.
		if since.Listened && now == was && !since.Named {
			return fateKept
		}
		return fatePurged
	case now == was:
		if now.Set == "" && since.Changes > 0 {
			return fatePurged // it came and went
		}
		return fateKept
	case here && now.Seq < was.Seq:
		if plain && (!since.Listened || since.Changes == 0) {
			return fateLost
		}
		return fatePurged
	case here && now.Holds == lease.Document:
		return fateKept
	case here && was.Holds == lease.Nothing && now.Holds == lease.Stub && now.Seq <= was.Seq+1 && (plain || since.Listened):
		return fateKept // somebody's lease where there was nothing, or that of an older snapshot
	case here: // DEL, UNLINK, EXPIRE 0, RENAME, a value of another type, eviction
		return fatePurged
	case known && since.Listened && (since.Changes > 0 || since.Beside):
		return fatePurged // a client did this while this process was connected
	case now.Holds == lease.Document:
		return fateKept
	case plain && (now.Set == "" || now.Seq == 1 && now.Holds != lease.Nothing):
		return fateLost
	}
	return fatePurged
}

// doubtful reports whether a look may have been answered by a server that has replaced the one that
// is still listened to: it shows another set, an earlier number, or nothing new after a change.
// While listening it counts only once that server has answered another ping.
func doubtful(was, now lease.Place, since watch.Received) bool {
	if !since.Listened || was.Holds == lease.Unknown {
		return false
	}
	return now.Set != was.Set || now.Seq < was.Seq || now == was && (since.Changes > 0 || since.Flushed)
}
