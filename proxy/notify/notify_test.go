package notify_test

import (
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
	"vitrine/proxy/verdict"
	"vitrine/upstream/guard"
)

func TestMain(m *testing.M) { os.Exit(testkit.Waiting{M: m, AtOnce: 8}.Run()) }

const hook = "preset: webhook"

func forbidden(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }

// TestEachChangeIsSentOnceByFourReplicas: each begins when the one before was sent, and every third
// fill changes nothing. The replicas take turns. The long tests make 1,000.
func TestEachChangeIsSentOnceByFourReplicas(t *testing.T) {
	f := newHastyFleet(t, 4, hook, 2*time.Millisecond)
	var want []string
	for seq := int64(1); seq <= 100; seq++ {
		f.notifiers = append(f.notifiers[1:], f.notifiers[0])
		f.all(filled(seq, int(seq-seq%3/2)))
		if seq%3 < 2 {
			want = append(want, fmt.Sprintf("banners changed %d %s", seq, tag(int(seq))))
		}
		f.settled()
	}
	f.want(want...)
	if f.counts["told"] != len(want) || f.counts["failed"] != 0 {
		t.Errorf("%v", f.counts)
	}
	for _, n := range f.notifiers {
		if last := n.Status()[0].Last; last == nil || last.Seq != 100 || last.Event != source.EventChanged {
			t.Errorf("a process knows of %+v", last)
		}
	}
}

// TestAnEndpointThatIsSlowGetsARequestOnce answers later than another replica waits for the one that
// stored the document.
func TestAnEndpointThatIsSlowGetsARequestOnce(t *testing.T) {
	f := newFleet(t, 3, hook)
	f.server.reply(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(3 * time.Second):
		}
	})
	f.each(filled(2, 1))
	f.want("banners changed 2 " + tag(1))
}

// TestAnEndpointThatIsFrozenIsNotifiedOfTheLatestWhenItGoesOn: it accepts connections and never
// answers, so that each attempt takes all its time.
func TestAnEndpointThatIsFrozenIsNotifiedOfTheLatestWhenItGoesOn(t *testing.T) {
	f := newFleet(t, 2, hook)
	frozen := make(chan struct{})
	f.server.reply(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-frozen:
		case <-r.Context().Done():
		}
	})
	f.all(filled(2, 1))
	f.all(filled(3, 2))
	testkit.Eventually(t, "an attempt ends", func() bool {
		return slices.ContainsFunc(f.notifiers, func(n *notify.Notifier) bool {
			s := n.Status()[0]
			return s.Error != "" && s.Pending == 1 && s.Last == nil
		})
	})
	if n := len(f.server.received()); n > 2 {
		t.Errorf("%d requests within the time of one", n)
	}
	f.server.reply(func(http.ResponseWriter, *http.Request) {})
	close(frozen)
	f.settled()
	if told := f.told(); told[len(told)-1] != "banners changed 3 "+tag(2) {
		t.Errorf("told %q", told)
	}
}

func TestAPurgeIsToldOnceAndSoIsTheDocumentAfterIt(t *testing.T) {
	f := newFleet(t, 3, hook)
	f.each(filled(2, 1), purged(3), filled(4, 1), filled(5, 1))
	f.want("banners changed 2 "+tag(1), "banners purged 3 ", "banners changed 4 "+tag(1))
}

// TestNobodyIsToldBeforeThePurgeBoundIsOver: until then another replica may serve what was before.
func TestNobodyIsToldBeforeThePurgeBoundIsOver(t *testing.T) {
	f := newFleet(t, 0, hook)
	f.bound = 300 * time.Millisecond
	f.join(hook)
	for _, s := range []cache.Sight{filled(2, 1), purged(3)} {
		began := time.Now()
		f.all(s)
		f.settled()
		if took := time.Since(began); took < f.bound {
			t.Errorf("told after %v", took)
		}
	}
	f.want("banners changed 2 "+tag(1), "banners purged 3 ")
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
	f.settled()
	if got := f.told(); len(got) != 1 || !strings.HasPrefix(got[0], "banners purged ") {
		t.Errorf("told %q", got)
	}
}

// TestAnotherProcessTellsWhatTheDeadOneDidNot: it was killed after the fill, before and after it had
// marked that it notifies. One that only stood still does not record what it sent too late.
func TestAnotherProcessTellsWhatTheDeadOneDidNot(t *testing.T) {
	f := newFleet(t, 2, hook)
	key := notify.Key(source.Target{Name: "it", URL: source.NewEndpoint(f.server.URL)})
	f.write(filled(2, 1))
	n := cache.Notice{Resource: "banners", Endpoint: key, Topic: cache.TopicContent, Set: "S", Seq: 2, Value: tag(1)}
	_, err := f.stores[0].Notify(t.Context(), n, func(cache.NotifyState) (bool, time.Duration) {
		f.set(lockRecord("banners"), "notifying:"+key, fmt.Sprintf("dead %d 0", time.Now().Add(500*time.Millisecond).UnixMilli()))
		return true, 0
	})
	testkit.Must(t, err)
	f.end()
	began := time.Now()
	f.notifiers[0].Seen(filled(2, 1))
	f.want("banners changed 2 " + tag(1))
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("sent after %v: not when the mark had lapsed", took)
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
		judged(f.notifiers[i], verdict.Document{Set: "S", Seq: 2, Failures: 2, Cause: why})
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
	for ; time.Since(began) < 500*time.Millisecond || seq < 20; seq += 2 { // also on a busy machine
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

func TestAnOutageIsToldOnceAndSoIsItsEnd(t *testing.T) {
	f := newFleet(t, 3, hook)
	held := &verdict.Held{ETag: tag(1)}
	for _, d := range []verdict.Document{
		{Seq: 2, Held: held}, {Seq: 2, Held: held, Failures: 1}, {Seq: 2, Failures: 2}, {Seq: 2, Held: held, Failures: 3},
		{Seq: 2, Held: held, Failures: 1}, {Seq: 3, Held: held}, {Seq: 3, Held: held, Failures: 2}, {Seq: 4},
	} {
		f.write(filled(d.Seq, 1))
		d.Set = "S"
		f.judged(d)
	}
	f.want("banners failing 2 ", "banners recovered 3 "+tag(1), "banners failing 3 ")
}

// TestTheRecoveryIsToldAlthoughRedisDoesNotKnowOfTheFailure: it was empty between, or away.
func TestTheRecoveryIsToldAlthoughRedisDoesNotKnowOfTheFailure(t *testing.T) {
	failed, again := verdict.Document{Set: "S", Seq: 2, Failures: 2}, verdict.Document{Set: "T", Seq: 1, Held: &verdict.Held{ETag: tag(1)}}
	for name, between := range map[string]func(f *fleet){
		"empty": func(f *fleet) {
			f.judged(failed)
			testkit.Must(f.t, f.redis.Client().FlushAll(f.t.Context()).Err())
		},
		"away": func(f *fleet) {
			f.redis.Kill()
			f.judged(failed)
			f.redis.Restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 2, hook+", events: [failing, recovered]")
			f.write(filled(2, 1))
			between(f)
			s := filled(1, 1)
			s.Set = "T"
			f.write(s)
			f.judged(again)
			f.judged(again)
			told := f.told()
			if n := len(told); n < 2 || !strings.HasPrefix(told[n-1], "banners recovered") || !strings.HasPrefix(told[n-2], "banners failing") {
				t.Errorf("told %q", told)
			}
		})
	}
}

// TestAnEndpointWithoutAnEventWasNotToldOfIt: it is recorded all the same.
func TestAnEndpointWithoutAnEventWasNotToldOfIt(t *testing.T) {
	f := newFleet(t, 2, hook+", events: [purged]")
	f.each(filled(2, 1))
	for _, n := range f.notifiers {
		if last := n.Status()[0].Last; last != nil {
			t.Errorf("the status says %+v", last)
		}
	}
}

func TestWhatIsHeldBackIsToldOnce(t *testing.T) {
	f := newFleet(t, 3, hook+", events: [held, released]")
	f.all(filled(1, 1)) // none of its events
	since := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	until := since.Add(15 * time.Minute)
	for i, h := range []struct {
		since  time.Time
		until  *time.Time
		reason string
		end    guard.End
	}{
		{since, &until, "9 of 10", ""}, {since, &until, "8 of 10", ""},
		{since, nil, "8 of 10", guard.Expired}, {since, nil, "8 of 10", guard.Recovered}, {since.Add(time.Hour), nil, "7 of 10", ""},
	} {
		for j, n := range f.notifiers {
			if i != 2 || j == 1 { // the end, by whoever sees it first
				lost := guard.Findings{{List: "banners", Kind: guard.Shrunk, Before: 20, After: 9}}
				n.Held("banners", &guard.Hold{Since: h.since, Until: h.until, Reason: h.reason, Command: "accept it", Findings: lost}, h.end)
			}
		}
		f.settled()
	}
	f.want("banners held 0 ", "banners released 0 ", "banners held 0 ")
	for i, want := range []string{
		`"command":"accept it","etag":"","event":"held","findings":[{"after":9,"before":20,`, `"event":"released","findings":[{"after":9,`, `"reason":"7 of 10"`,
	} {
		if got := f.server.received()[i].body; !strings.Contains(got, want) || (i == 0) != strings.Contains(got, `"until":"2026-11-20T12:15:00Z"`) || (i == 1) != strings.Contains(got, `"reason":"expired"`) {
			t.Error(got)
		}
	}
}

// TestWithoutRedisEachProcessTellsWhatItSees: at least once, and no process twice.
func TestWithoutRedisEachProcessTellsWhatItSees(t *testing.T) {
	f := newFleet(t, 2, hook)
	f.each(filled(2, 1))
	f.redis.Kill()
	f.away = true
	same := filled(2, 1)
	same.Alone = true
	f.each(same)
	for range 2 {
		s := filled(2, 2) // loaded alone
		s.Alone = true
		f.each(s)
	}
	for failures := 2; failures < 5; failures++ {
		f.judged(verdict.Document{Set: "S", Seq: 2, Failures: failures})
	}
	f.each(filled(3, 3)) // filled just before
	told := f.told()
	slices.Sort(told)
	want := []string{
		"banners changed 2 " + tag(1), "banners changed 2 " + tag(2), "banners changed 2 " + tag(2), "banners changed 3 " + tag(3), "banners changed 3 " + tag(3),
		"banners failing 2 ", "banners failing 2 ",
	}
	slices.Sort(want)
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestADeadReplicasFillIsSentByAnother: the others saw that it was stored, and not by them.
func TestADeadReplicasFillIsSentByAnother(t *testing.T) {
	f := newFleet(t, 3, hook)
	f.end()
	s := filled(2, 1)
	f.write(s)
	began := time.Now()
	for _, n := range f.notifiers {
		n.Seen(s)
	}
	f.want("banners changed 2 " + tag(1))
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("sent after %v: not before the other had its time", took)
	}
}

// TestPlantedValuesSilenceNoEndpoint: numbers above what is possible count as none, whoever writes
// them into the lock record.
func TestPlantedValuesSilenceNoEndpoint(t *testing.T) {
	f := newFleet(t, 2, hook)
	key, lock := notify.Key(source.Target{Name: "it", URL: source.NewEndpoint(f.server.URL)}), lockRecord("banners")
	soon := func(after time.Duration) int64 { return time.Now().Add(after).UnixMilli() }
	seq := int64(2)
	f.each(filled(seq, 1))
	for what, fields := range map[string][]any{
		"a later number":            {"notified:" + key + ":content", "999 S x 1"},
		"the next number":           {"notified:" + key + ":content", "+1 S x 1"},
		"a number without a set":    {"notified:" + key + ":content", "999  x 1"},
		"a time to come":            {"notified:" + key + ":content", fmt.Sprintf("2 S x %d", soon(time.Hour))},
		"no number":                 {"notified:" + key + ":content", "99999999999999999999 S x 1"},
		"a value of 1 MiB":          {"notified:" + key + ":content", "2 S " + strings.Repeat("x", 1<<20) + " 1"},
		"a mark of an hour":         {"notifying:" + key, fmt.Sprintf("other %d 0", soon(time.Hour))},
		"a pause of an hour":        {"notifying:" + key, fmt.Sprintf("sent %d 0", soon(time.Hour))},
		"a failure of an hour":      {"notifying:" + key, fmt.Sprintf("failed %d 3", soon(time.Hour))},
		"a mark without end":        {"notifying:" + key, "other 999999999999999 0"},
		"a name of 1 MiB":           {"notifying:" + key, strings.Repeat("x", 1<<20) + fmt.Sprintf(" %d 0", soon(time.Hour))},
		"outages and holds to come": {"notified:" + key + ":outage", "999999 S failing 1", "notified:" + key + ":hold", fmt.Sprintf("%d - held 1", soon(time.Hour)*2)},
	} {
		before := len(f.server.received())
		f.set(lock, fields...)
		seq++
		if text, ok := fields[1].(string); ok && text[0] == '+' {
			f.set(lock, fields[0], fmt.Sprintf("%d%s", seq, text[2:])) // Redis is not there yet
			f.write(filled(seq-1, 0))
			f.notifiers[0].Seen(filled(seq-1, int(seq)+1000))
			f.settled()
			before++
		}
		f.each(filled(seq, int(seq)))
		if n := len(f.server.received()); n != before+1 {
			t.Errorf("%s: %d requests, want %d", what, n-before, 1)
		}
	}
	held := &guard.Hold{Since: time.Now().Truncate(time.Millisecond), Reason: "9 of 10"}
	before := len(f.server.received())
	f.set(lock, "notified:"+key+":outage", "999999 S failing 1", "notified:"+key+":hold", fmt.Sprintf("%d - held 1", soon(time.Hour)*2))
	for _, n := range f.notifiers {
		n.Held("banners", held, "")
	}
	f.judged(verdict.Document{Set: "S", Seq: seq, Failures: 2})
	if n := len(f.server.received()); n != before+2 {
		t.Errorf("%d requests about a hold and an outage, want 2", n-before)
	}
}

// TestAPlantedNumberOfFailuresLengthensNoPause: the first failure beside a mark that cannot be has the
// first pause, not the longest.
func TestAPlantedNumberOfFailuresLengthensNoPause(t *testing.T) {
	f := newFleet(t, 1, hook)
	f.server.reply(forbidden)
	f.set(lockRecord("banners"), "notifying:"+notify.Key(source.Target{Name: "it", URL: source.NewEndpoint(f.server.URL)}), fmt.Sprintf("x %d 999", time.Now().Add(time.Hour).UnixMilli()))
	f.all(filled(2, 1))
	testkit.Eventually(t, "it fails once", func() bool { return len(f.server.received()) == 1 })
	f.server.reply(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	testkit.Within(t, 10*time.Second, "it is notified", func() bool { return len(f.server.received()) == 2 })
}
