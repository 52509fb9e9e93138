package lease

import (
	"slices"
	"testing"
	"time"
)

// history is what is left, newest first, after writes that long after its beginning.
func history(after ...time.Duration) (kept []time.Duration) {
	began := time.Unix(1e9, 0)
	for _, at := range after {
		kept = append([]time.Duration{at}, kept...)
		all := make([]Version, len(kept))
		for i, at := range kept {
			all[i].At = began.Add(at)
		}
		keep, next := retain(all), []time.Duration(nil)
		for i, at := range kept {
			if keep[i] {
				next = append(next, at)
			}
		}
		kept = next
	}
	return kept
}

func every(d time.Duration, n int) (all []time.Duration) {
	for i := range n {
		all = append(all, time.Duration(i)*d)
	}
	return all
}

func TestAGoodVersionIsNotPushedOut(t *testing.T) {
	for name, after := range map[string][]time.Duration{
		"by corrections within seconds": every(100*time.Millisecond, 41),
		"by one a minute for an hour":   every(time.Minute, 60),
		"by one an hour for a day":      every(time.Hour, 24),
	} {
		kept := history(after...)
		if !slices.Contains(kept, 0) || len(kept) > 10 {
			t.Errorf("%s: %v", name, kept)
		}
		if newest := after[len(after)-4:]; !slices.Equal(kept[:4], []time.Duration{newest[3], newest[2], newest[1], newest[0]}) {
			t.Errorf("%s: %v, want the newest four", name, kept)
		}
	}
}

func TestTheHistoryReachesBackByHoursAndDays(t *testing.T) {
	for _, step := range []time.Duration{time.Minute, 10 * time.Minute, 59 * time.Minute, time.Hour, 7 * time.Hour, 24 * time.Hour} {
		kept := history(every(step, int(20*24*time.Hour/step))...)
		if len(kept) != 10 {
			t.Fatalf("every %v: %v", step, kept)
		}
		for i := 5; i < 10; i++ {
			least, most := time.Hour, time.Hour
			if i >= 7 { // from an hourly one to a daily one it is anything up to a day
				most = 24 * time.Hour
			}
			if i >= 8 {
				least = 24 * time.Hour
			}
			if apart := kept[i-1] - kept[i]; apart < least || apart > 2*max(most, step)+step {
				t.Errorf("every %v: version %d is %v older than the one before", step, i, apart)
			}
		}
	}
}

func TestAFewVersionsAreAllKept(t *testing.T) {
	if kept := history(0, 1, 2, 3); len(kept) != 4 {
		t.Errorf("%v", kept)
	}
	if kept := history(); kept != nil {
		t.Errorf("%v", kept)
	}
}
