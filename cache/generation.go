package cache

import (
	"time"

	"vitrine/cache/lease"
)

// A fate is what became of a copy when the generation changed.
type fate int

const (
	kept fate = iota
	purged
	lost
)

// became is what became of a copy that was last seen at was (nil: the process has never asked), now
// that Redis is at now. Here says that the same server process answers, and expired is the number of
// the document that has reached its until, or 0: see the lock record.
func became(was *lease.Generation, now lease.Generation, here bool, expired int64) fate {
	has := now.Holds == lease.Document
	switch first := now.Set == "" || now.Seq == 1 && now.Holds == lease.Placeholder; {
	case was == nil && has:
		return kept
	case was == nil && first:
		return lost
	case was == nil: // a set with a history, and no document
		return purged
	case now == *was:
		return kept
	case was.Set == "" && now.Seq <= 1 && now.Holds != lease.Nothing: // the first lease or the first fill
		return kept
	case was.Set == "" || now.Set != was.Set:
		if here {
			return purged
		}
		return lost
	case now.Seq < was.Seq: // an older snapshot
		return lost
	case has && now.Seq == was.Seq && was.Holds == lease.Document: // and one that was written on
		return lost
	case has:
		return kept
	case now.Holds == lease.Nothing && now.Seq > was.Seq: // a placeholder was there since, and was removed
		return purged
	case expired > 0 && expired == was.Seq && now.Seq <= was.Seq+1:
		return lost
	case was.Holds == lease.Nothing && now.Seq <= was.Seq+1: // a placeholder where there was nothing
		return kept
	}
	return purged
}

// follows reports whether next is the fill of the hash that was there, without a purge between the
// two: a purge costs a number, the placeholder's.
func follows(was, next lease.Generation) bool {
	return was.Holds != lease.Nothing && next.Holds == lease.Document && next.Set == was.Set && next.Seq == was.Seq+1
}

func ms(n int64) time.Duration {
	const most = 100 * 365 * 24 * 60 * 60 * 1000
	return time.Duration(max(-most, min(n, most))) * time.Millisecond
}
