package listen

import (
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

func TestAnAlarmIsLeftAloneWhileItIsAsGoodAndNeverGoesOffTooEarly(t *testing.T) {
	var a alarm
	sets := 0
	var last time.Time
	set := func(at time.Time) {
		t.Helper()
		left, ns := time.Until(at), int64(0)
		if !at.IsZero() {
			ns = at.UnixNano()
		}
		testkit.Must(t, a.set(ns, func(d time.Time) error {
			sets++
			last = d
			return nil
		}))
		switch {
		case at.IsZero() && !last.IsZero(), !at.IsZero() && last.Before(at):
			t.Fatalf("goes off at %v, want %v or later", last, at)
		case !at.IsZero() && last.Sub(at) > left/8+time.Millisecond:
			t.Fatalf("goes off %v too late", last.Sub(at))
		}
	}
	now := time.Now()
	for range 100 { // requests within the eighth of their idle timeout
		now = now.Add(time.Millisecond)
		set(now.Add(2 * time.Minute))
	}
	if sets != 1 {
		t.Errorf("set %d times for timeouts that follow each other closely", sets)
	}
	set(now.Add(10 * time.Second)) // a shorter one, for the rest of a request
	set(now.Add(2 * time.Minute))
	set(time.Time{})
	set(time.Time{})
	if sets != 4 {
		t.Errorf("set %d times, want 4", sets)
	}
	a.at.Store(unset)
	set(time.Time{})
	if sets != 5 {
		t.Error("left alone after another has set the deadline")
	}
}
