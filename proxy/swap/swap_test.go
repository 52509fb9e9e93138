package swap

import (
	"context"
	"sync/atomic"
	"testing"

	"vitrine/cmd/testkit"
)

// server is replaced at the moment in which a request has found it, and before it begins.
type server struct {
	UnderWay
	replace func()
}

func (s *server) Begin() {
	if s.replace != nil {
		s.replace()
	}
	s.UnderWay.Begin()
}

func TestNoRequestIsUnderWayInADrainedServer(t *testing.T) {
	var p atomic.Pointer[server]
	next := new(server)
	before := &server{replace: func() { p.Store(next) }}
	p.Store(before)
	s := Begin(&p)
	if s != next {
		t.Fatal("a request is answered by a server that may have ended")
	}
	testkit.Check(t, before.Drain(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := next.Drain(ctx); err == nil {
		t.Error("drained with a request under way")
	}
	s.End()
	testkit.Check(t, next.Drain(t.Context()))
}
