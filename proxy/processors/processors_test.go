package processors

import (
	"runtime"
	"testing"

	"vitrine/cmd/testkit"
)

func TestHalfOfTheProcessorsFollowsGOMAXPROCS(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(6))
	h := new(Half)
	for range 3 {
		h.Take()
	}
	if h.TryTake() {
		t.Error("four of six are taken")
	}
	taken := make(chan struct{})
	go func() { h.Take(); close(taken) }()
	h.Give()
	testkit.Receive(t, taken)
	runtime.GOMAXPROCS(8)
	if !h.TryTake() || h.taken != 4 {
		t.Errorf("%d of eight are taken, and no more", h.taken)
	}
	runtime.GOMAXPROCS(1)
	for range 4 {
		h.Give()
	}
	if !h.TryTake() || h.TryTake() {
		t.Error("of one processor, not one is taken")
	}
}

func TestWhoWaitsComesFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	h := new(Half)
	h.Take()
	taken := make(chan struct{})
	go func() { h.Take(); close(taken) }()
	for waits := false; !waits; runtime.Gosched() {
		h.mu.Lock()
		waits = len(h.waiting) == 1
		h.mu.Unlock()
	}
	h.Give()
	if h.TryTake() {
		t.Error("a processor was taken before the one who waited had it")
	}
	testkit.Receive(t, taken)
}
