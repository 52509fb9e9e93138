package processors

import (
	"runtime"
	"testing"

	"vitrine/cmd/testkit"
)

func TestHalfOfTheProcessorsAndAtLeastOneAreTaken(t *testing.T) {
	for processors, half := range map[int]int{1: 1, 2: 1, 7: 3} {
		before := runtime.GOMAXPROCS(processors)
		h := New()
		runtime.GOMAXPROCS(before)
		for range half {
			h.Take()
		}
		taken := make(chan struct{})
		go func() { h.Take(); close(taken) }()
		if h.TryTake() {
			t.Errorf("of %d processors, more than %d are taken", processors, half)
		}
		h.Give()
		testkit.Receive(t, taken)
	}
}
