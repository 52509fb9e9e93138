package guard

import (
	"testing"
	"time"
)

// TestTheClockOfAHold goes through fetches a minute apart, with a hold of five minutes.
func TestTheClockOfAHold(t *testing.T) {
	shrunk := func(list string, after int) Findings {
		return Findings{{List: list, Kind: Shrunk, Before: 100, After: after, Items: after, Verdict: ForHold}}
	}
	gone := Findings{{List: "artwork", Kind: Emptied, Before: 100, Verdict: UntilAccepted}}
	small, great, other := shrunk("artwork", 45), shrunk("artwork", 40), shrunk("artist", 1)
	failed := Findings(nil)
	repeat := func(n int, f ...Findings) (all []Findings) {
		for range n {
			all = append(all, f...)
		}
		return all
	}
	for name, c := range map[string]struct {
		fetches []Findings
		over    int // the fetch with which it is over; -1: none
	}{
		"the same loss":                      {repeat(9, small), 5},
		"a smaller one":                      {append(repeat(2, great), repeat(7, small)...), 5},
		"a worse one":                        {append(repeat(4, small), repeat(9, great)...), 9},
		"of another list":                    {append(repeat(4, small), repeat(9, other)...), 9},
		"of another list too":                {append(repeat(4, small), repeat(9, append(append(Findings{}, small...), other...))...), 9},
		"one that goes up and down":          {repeat(9, great, small), 5},
		"a lasting one":                      {repeat(99, gone), -1},
		"a lasting one that becomes smaller": {append(repeat(9, gone), small), 9},
		"one that becomes lasting":           {append(repeat(3, small), repeat(9, gone)...), -1},
		"lasting now and then":               {repeat(9, gone, small), 5},
		"with a CMS that fails meanwhile":    {append(append(repeat(2, small), repeat(60, failed)...), repeat(9, small)...), 66},
		"with a CMS that fails in between":   {repeat(9, small, failed), -1},
	} {
		t.Run(name, func(t *testing.T) {
			var hold *Hold
			began := time.Unix(1e9, 0)
			unbroken := true
			for i, found := range c.fetches {
				now := began.Add(time.Duration(i) * time.Minute)
				if found == nil {
					unbroken = false
					continue
				}
				next, over := hold.Record().Hold().Next(now, found, unbroken, 5*time.Minute)
				if over != (i == c.over) {
					t.Fatalf("over after fetch %d: %v", i, over)
				} else if over {
					return
				}
				if !next.Since.Equal(began) || (next.Until == nil) != found.Lasting() || next.Until != nil && !next.Until.After(now) {
					t.Fatalf("after fetch %d: %+v", i, next)
				}
				hold, unbroken = next, true
			}
			if c.over >= 0 {
				t.Error("it is never over")
			}
		})
	}
}

func TestAHoldOfNoTimeIsOver(t *testing.T) {
	found := Findings{{List: "banners", Kind: Emptied, Before: 5, Verdict: ForHold}}
	var none *Hold
	if _, over := none.Next(time.Now(), found, true, 0); !over {
		t.Error("it is not over")
	}
	later := &Hold{Since: time.Now().Add(time.Hour), Findings: found}
	if next, _ := later.Next(time.Now(), found, true, time.Hour); next.Since.After(time.Now()) {
		t.Error("one of the future goes on")
	}
}

func TestWhatIsAcceptedIsNoWorse(t *testing.T) {
	found := func(after int) Findings {
		return Findings{{List: "artwork", Kind: Shrunk, Before: 100, After: after, Verdict: ForHold}}
	}
	hold := &Hold{Since: time.Now(), Findings: found(45)}
	for after, covered := range map[int]bool{44: false, 45: true, 46: true} {
		if hold.Covers(found(after)) != covered {
			t.Error(after)
		}
	}
	var none *Hold
	if none.Covers(nil) || none.Held() || none.Record() != (Record{}) {
		t.Error("nothing is held back")
	}
}

func TestAHoldThatIsNoneIsNotRead(t *testing.T) {
	findings := `[{"path":"banners","kind":"emptied","before":5,"verdict":"for_hold"}]`
	for _, r := range []Record{{}, {0, findings, "{}"}, {-1, findings, "{}"}, {5, "", "{}"}, {5, "x", "{}"}, {5, "[]", ""}, {5, `{}`, ""}} {
		if h := r.Hold(); h != nil {
			t.Errorf("%v: %+v", r, h)
		}
	}
	for _, clock := range []string{"", "x", "[]", `{"shown":-5}`} {
		if h := (Record{5, findings, clock}).Hold(); h == nil || h.Reason != "no banners, 5 before" || h.Until != nil {
			t.Errorf("%s: %+v", clock, h)
		}
	}
}
