package notify_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cmd/testkit"
	"vitrine/config/source"
	"vitrine/proxy/notify"
	"vitrine/upstream/shape"
)

func TestMain(m *testing.M) { os.Exit(testkit.Waiting{M: m, AtOnce: 8}.Run()) }

const hook = "preset: webhook"

func forbidden(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }

func TestEachChangeIsToldOnceForTheFleetInOrder(t *testing.T) {
	f := newFleet(t, 4, hook)
	var want []string
	for seq := int64(1); seq <= 10; seq++ {
		f.all(filled(seq, int(seq/2))) // every other one changes nothing
		if seq%2 == 0 || seq == 1 {
			want = append(want, fmt.Sprintf("banners changed %d %s", seq, tag(int(seq/2))))
		}
		f.settled()
	}
	f.want(want...)
	if f.counts["told"] != len(want) || f.counts["failed"] != 0 {
		t.Errorf("%v", f.counts)
	}
	for _, n := range f.notifiers {
		if last := n.Status()[0].Last; last == nil || last.Seq != 10 || last.Event != source.EventChanged {
			t.Errorf("a process knows of %+v", last)
		}
	}
}

func TestAPurgeIsToldOnceAndSoIsADifferentDocumentAfterIt(t *testing.T) {
	f := newFleet(t, 3, hook)
	f.each(filled(2, 1), purged(3), filled(4, 1)) // the same content: whoever was told of the purge has it
	f.each(purged(5), filled(6, 2))
	f.want("banners changed 2 "+tag(1), "banners purged 3 ", "banners purged 5 ", "banners changed 6 "+tag(2))
}

// TestACacheIsNotToldOfTheDocumentAfterAPurge: it was told of the purge, and can have nothing
// older.
func TestACacheIsNotToldOfTheDocumentAfterAPurge(t *testing.T) {
	f := newFleet(t, 2, hook+", cache: true, events: [changed, purged]")
	f.each(filled(2, 1), purged(3), filled(4, 2), filled(5, 3), purged(6), filled(8, 4))
	f.want("banners changed 2 "+tag(1), "banners purged 3 ", "banners changed 5 "+tag(3), "banners purged 6 ", "banners changed 8 "+tag(4))
}

func TestAPurgeIsToldEvenIfTheSameDocumentIsBackBeforeThat(t *testing.T) {
	f := newFleet(t, 2, hook+", events: [purged]")
	f.each(filled(2, 1))
	f.all(purged(3))
	f.all(filled(4, 1))
	f.want("banners purged 3 ")
}

// TestAnotherProcessTellsWhatTheDeadOneDidNot: it was killed after the fill, before and after it
// had claimed.
func TestAnotherProcessTellsWhatTheDeadOneDidNot(t *testing.T) {
	f := newFleet(t, 2, hook)
	f.each(filled(2, 1))
	var claim cache.Claim
	key := notify.Key(source.Target{Name: "it", URL: f.server.URL})
	testkit.Eventually(t, "the pause after the first notice is over", func() (granted bool) {
		var err error
		claim, err = f.stores[0].Claim(t.Context(), cache.Claim{Notice: cache.Notice{Resource: "banners", Target: key, Topic: "content", Set: "S", Seq: 3, Value: tag(2)}}, 500*time.Millisecond)
		return err == nil && claim.Outcome == cache.ClaimGranted
	})
	f.end()
	f.all(filled(3, 2))
	f.want("banners changed 2 "+tag(1), "banners changed 3 "+tag(2))
	claim.Outcome = cache.ClaimTold
	if late, err := f.stores[1].Claim(t.Context(), claim, 0); err != nil || late.Outcome != "lost" {
		t.Errorf("%+v %v", late, err)
	}
}

// TestAProcessThatStartsTellsWhatNobodyDid: all were killed between a fill, or a purge, and
// telling.
func TestAProcessThatStartsTellsWhatNobodyDid(t *testing.T) {
	f := newFleet(t, 1, hook)
	f.each(filled(2, 1))
	f.end()
	f.join(hook)
	f.each(filled(2, 1)) // the same: nothing to tell
	f.all(filled(5, 2))
	f.want("banners changed 2 "+tag(1), "banners changed 5 "+tag(2))
}

// TestATargetThatWasDownIsToldTheLatestState: attempts are made after growing pauses, which all
// processes share.
func TestATargetThatWasDownIsToldTheLatestState(t *testing.T) {
	f := newFleet(t, 2, hook)
	f.server.reply(forbidden)
	for seq := int64(1); seq < 20; seq++ {
		f.all(filled(seq, int(seq)))
	}
	testkit.Eventually(t, "an error is seen", func() bool {
		return slices.ContainsFunc(f.notifiers, func(n *notify.Notifier) bool {
			s := n.Status()[0]
			return s.Error != "" && s.Pending > 0 && s.Last == nil
		})
	})
	before := len(f.server.received())
	f.server.reply(func(http.ResponseWriter, *http.Request) {})
	f.settled()
	told := f.told()
	if after := told[before:]; len(after) > 2 || after[len(after)-1] != "banners changed 19 "+tag(19) {
		t.Errorf("after it was back: %q", after)
	}
	for _, n := range f.notifiers {
		if s := n.Status()[0]; s.Error != "" || s.Last == nil {
			t.Errorf("%+v", s)
		}
	}
}

// TestATargetGetsThePauseThatItAsksFor: all processes keep to a Retry-After, here longer than the
// pause after a first failure.
func TestATargetGetsThePauseThatItAsksFor(t *testing.T) {
	f := newFleet(t, 2, hook)
	var refused atomic.Pointer[time.Time]
	again := make(chan time.Duration, 1)
	f.server.reply(func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now()
		if refused.CompareAndSwap(nil, &now) {
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		again <- now.Sub(*refused.Load())
	})
	f.all(filled(1, 1))
	if after := testkit.Receive(t, again); after < 1900*time.Millisecond { // of 2 s by Redis's clock
		t.Errorf("told again after %v", after)
	}
	f.want("banners changed 1 "+tag(1), "banners changed 1 "+tag(1))
}

// TestADocumentThatIsBackIsToldIfAnotherWasServedBetween: a cache may have fetched that one while
// it could not be told, and would keep it.
func TestADocumentThatIsBackIsToldIfAnotherWasServedBetween(t *testing.T) {
	at := func(seq int64, id int) cache.Sight {
		s := filled(seq, id)
		s.Document.ChangedAt = time.UnixMilli(1000 * seq)
		return s
	}
	f := newFleet(t, 2, hook)
	f.each(at(2, 1))
	f.server.reply(forbidden)
	f.all(at(3, 2))
	testkit.Eventually(t, "it could not be told", func() bool { return len(f.server.received()) > 1 })
	f.end() // whoever knows of it may be gone
	f.all(at(4, 1))
	f.server.reply(func(http.ResponseWriter, *http.Request) {})
	f.settled()
	if told := f.told(); told[len(told)-1] != "banners changed 4 "+tag(1) {
		t.Errorf("told %q", told)
	}
}

// TestAnEventThatIsRepeatedHasTheSameID: by another process too, after the document was renewed.
func TestAnEventThatIsRepeatedHasTheSameID(t *testing.T) {
	f := newFleet(t, 2, hook)
	f.server.reply(forbidden)
	f.notifiers[0].Seen(filled(2, 1))
	testkit.Eventually(t, "a process tells it", func() bool { return len(f.server.received()) > 0 })
	f.end()
	f.server.reply(func(http.ResponseWriter, *http.Request) {})
	f.each(filled(3, 1))
	if first, last := f.firstAndLast(); len(f.server.received()) < 2 || first.ID != last.ID || len(first.ID) != 24 {
		t.Errorf("%+v and %+v", first, last)
	}
}

// TestAFailureThatIsRepeatedHasTheSameID: only the process that fetched knows the reason in full.
func TestAFailureThatIsRepeatedHasTheSameID(t *testing.T) {
	f := newFleet(t, 2, hook)
	f.server.reply(forbidden)
	for i, why := range []string{"status 500 at page 3", "status 500"} {
		sight := filled(2, 1)
		sight.Document, sight.Failures, sight.Err = nil, 2, errors.New(why)
		f.notifiers[i].Seen(sight)
		testkit.Eventually(t, "a process tells it", func() bool { return len(f.server.received()) > i })
		f.ends[i]()
	}
	if first, last := f.firstAndLast(); first.ID != last.ID || first.Reason == last.Reason {
		t.Errorf("%+v and %+v", first, last)
	}
}

// TestATargetAtAnotherAddressIsToldWhatTheOneBeforeWas: a process with the configuration of before,
// which is about to end, tells that one meanwhile.
func TestATargetAtAnotherAddressIsToldWhatTheOneBeforeWas(t *testing.T) {
	f := newFleet(t, 1, hook)
	before := f.server
	f.server = newReceiver(t)
	f.join(hook)
	f.all(filled(2, 1))
	f.want("banners changed 2 " + tag(1))
	if n := len(before.received()); n != 1 {
		t.Errorf("%d requests to the one before", n)
	}
}

// TestAStormOfPurgesIsOneNoticeInEachPause: 100 ms here.
func TestAStormOfPurgesIsOneNoticeInEachPause(t *testing.T) {
	f := newFleet(t, 3, hook)
	began := time.Now()
	seq := int64(1)
	for ; time.Since(began) < 500*time.Millisecond; seq += 2 {
		f.all(filled(seq, int(seq)))
		f.all(purged(seq + 1))
	}
	f.settled()
	told := f.told()
	if most := int(time.Since(began)/(100*time.Millisecond)) + 1; len(told) > most || len(told) < 2 {
		t.Errorf("%d notices in %v, want at most %d: %q", len(told), time.Since(began), most, told)
	}
	if last := told[len(told)-1]; last != fmt.Sprintf("banners purged %d ", seq-1) {
		t.Errorf("the last one told is %s of %d", last, seq-1)
	}
}

func TestFailingIsToldOnceAndSoIsTheRecovery(t *testing.T) {
	f := newFleet(t, 3, hook)
	failed := func(seq int64, count int) {
		f.each(cache.Sight{Key: "rules", Set: "S", Seq: seq, Failures: count, Err: fmt.Errorf("status %d", 500+count)})
	}
	well := func(seq int64) {
		s := filled(seq, 1)
		s.Key = "rules"
		f.each(s)
	}
	well(2)
	failed(2, 1)
	failed(2, 2)
	failed(2, 3)
	well(2) // a purge lifts the pause: nothing was fetched
	well(3)
	failed(3, 2)
	f.want("rules changed 2 "+tag(1), "rules failing 2 ", "rules recovered 3 "+tag(1), "rules failing 3 ")
}

func TestWhatIsHeldBackIsToldOnce(t *testing.T) {
	f := newFleet(t, 3, hook+", events: [held]")
	f.all(filled(1, 1)) // none of its events
	since := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, reason := range []string{"9 of 10", "9 of 10", "8 of 10", "", "8 of 10"} {
		for i, n := range f.notifiers {
			n.Held("banners", since.Add(time.Duration(i)*time.Second), reason) // their clocks differ
		}
		f.settled()
	}
	f.want("banners held 0 ", "banners held 0 ", "banners held 0 ")
	if got := f.server.received()[1]; !strings.Contains(got.body, `"reason":"8 of 10"`) {
		t.Error(got.body)
	}
}

// TestWithoutRedisEachProcessTellsWhatItSees: at least once, and no process twice.
func TestWithoutRedisEachProcessTellsWhatItSees(t *testing.T) {
	f := newFleet(t, 2, hook)
	f.each(filled(2, 1))
	f.stop()
	for range 2 {
		s := filled(2, 2) // loaded alone
		s.Alone = true
		f.each(s)
	}
	f.each(filled(3, 3)) // filled just before
	told := f.told()
	slices.Sort(told[1:3])
	slices.Sort(told[3:])
	want := []string{"banners changed 2 " + tag(1), "banners changed 2 " + tag(2), "banners changed 2 " + tag(2), "banners changed 3 " + tag(3), "banners changed 3 " + tag(3)}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestTheWebhookSaysWhatChangedInNumbers(t *testing.T) {
	f := newFleet(t, 1, hook)
	doc := func(seq int64, text string) cache.Sight {
		normal, err := shape.Normalize(shape.Banners, []byte(text))
		testkit.Must(t, err)
		s := filled(seq, 0)
		s.Document = &cache.Document{Body: normal.Body, ETag: cache.ETag(normal.Body)}
		return s
	}
	f.each(doc(1, `[{"id":1},{"id":2},{"id":3}]`))
	f.each(doc(2, `[{"id":1,"redirect_link_fr":"x"},{"id":4},{"id":5}]`))
	if _, e := f.firstAndLast(); e.Changes["banners"] != (notify.Changed{Added: 2, Removed: 2, Changed: 1}) {
		t.Errorf("%+v", e)
	}
}
