package lease

import "time"

// The classes of versions that the history keeps, newest first: at most so many, each so much older
// than the one kept before it.
var classes = []struct {
	most  int
	apart time.Duration
}{
	{4, 0},
	{3, time.Hour},
	{3, 24 * time.Hour},
}

// retain returns which versions are kept, of all, newest first. Those beyond the newest ones are gone
// through from the oldest on: a good version is not pushed out by however many corrections of a bad
// one.
func retain(all []Version) (keep []bool) {
	keep = make([]bool, len(all))
	left := make([]int, len(all)) // indices, newest first
	for i := range left {
		left[i] = i
	}
	for _, class := range classes {
		var apart []int // of those left, oldest first
		for i := len(left) - 1; i >= 0; i-- {
			if n := len(apart); n == 0 || all[left[i]].At.Sub(all[apart[n-1]].At) >= class.apart {
				apart = append(apart, left[i])
			}
		}
		kept := apart[max(len(apart)-class.most, 0):]
		for _, i := range kept {
			keep[i] = true
		}
		left = left[:0]
		for i := len(apart) - len(kept) - 1; i >= 0; i-- {
			left = append(left, apart[i])
		}
	}
	return keep
}
