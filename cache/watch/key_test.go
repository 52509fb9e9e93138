package watch

import "testing"

// listening is a key whose server is connected, in its n-th period.
func listening(n uint64) (*Key, *Server) {
	s, run := &Server{}, "run"
	s.listensTo.Store(&run)
	s.live.Store(true)
	s.period.Store(n)
	k := &Key{notify: func(bool) {}}
	k.server.Store(s)
	return k, s
}

func TestOwnWriteExplainsOneChange(t *testing.T) {
	k, _ := listening(1)
	m := k.Mark()
	k.Begin().End(true, true)
	k.change(false)
	if k.Withdrawn(&m) || !k.Changed(&m) {
		t.Error("the change of an own write is unexplained, or none")
	}
	k.change(false)
	if !k.Withdrawn(&m) {
		t.Error("one own write explains two changes")
	}
}

func TestOwnWriteOfAnEarlierPeriodExplainsNothing(t *testing.T) {
	k, s := listening(1)
	over, underWay := k.Begin(), k.Begin()
	over.End(true, true) // and announced to nobody: the connection is lost
	s.live.Store(false)
	m := k.Mark()
	k.change(false) // on the next one, before its first ping is answered
	if !k.Withdrawn(&m) {
		t.Error("explained before the period begins")
	}
	s.period.Store(2)
	s.live.Store(true)
	m = k.Mark()
	k.change(false)
	if !k.Withdrawn(&m) {
		t.Error("explained by a write of the period before")
	}
	underWay.End(false, true)
}

func TestFlushWithdrawsWhatAnEarlierProcessHeld(t *testing.T) {
	k, _ := listening(1)
	m := k.Mark()
	k.change(false)
	if k.WithdrawnBefore("run", &m) {
		t.Error("a write of another replica to this process withdraws what an earlier one held")
	}
	if !k.WithdrawnBefore("another run", &m) {
		t.Error("a change from an earlier process does not")
	}
	k.change(true)
	if !k.WithdrawnBefore("run", &m) {
		t.Error("FLUSHALL does not")
	}
}
