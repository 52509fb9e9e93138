package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/config"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestRequestsUnderWayAreAnsweredWholeWhenItStops(t *testing.T) {
	cms := upstreamtest.New(t)
	release := cms.Block()
	vitrine := start(t, "VITRINE_UPSTREAM_URL="+cms.URL)
	answered := make(chan string, 1)
	go func() {
		got, err := ask(http.DefaultClient, "http://"+vitrine.public.Addr().String()+shape.Banners.Route())
		answered <- fmt.Sprint(got.status, err)
	}()
	cms.WaitCount(shape.Banners, 1)
	ready := "http://" + vitrine.operator.Addr().String() + "/readyz"
	stopped := make(chan error, 1)
	go func() { stopped <- vitrine.stop() }()
	// Draining is told while the request is under way, or was before anybody could ask: then the
	// address is closed already.
	testkit.Check(t, testkit.Retry(func() error {
		if got, err := ask(http.DefaultClient, ready); err == nil && got.status != http.StatusServiceUnavailable {
			return errors.New("still ready")
		}
		return nil
	}))
	release()
	if got := testkit.Receive(t, answered); got != "200 <nil>" {
		t.Errorf("the request under way got %s", got)
	}
	if err := testkit.Receive(t, stopped); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestRequestsThatDoNotFinishInTimeAreCutOff(t *testing.T) {
	cms := upstreamtest.New(t)
	release := cms.Block()
	defer release()
	vitrine := start(t, "VITRINE_UPSTREAM_URL="+cms.URL, "VITRINE_SHUTDOWN_TIMEOUT=50ms")
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = ask(http.DefaultClient, "http://"+vitrine.public.Addr().String()+shape.Banners.Route()) // cut off
	}()
	cms.WaitCount(shape.Banners, 1)
	began := time.Now()
	if err := vitrine.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopping took %v", took)
	}
	testkit.Receive(t, asked)
}

func TestAFailedStartLeavesNothingOpen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer taken.Close()
	public := freeAddress(t)
	cfg, err := config.Load(config.Sources{Environ: []string{
		"VITRINE_LISTEN=" + public, "VITRINE_ADMIN_LISTEN=", "VITRINE_REDIS_URL=embedded:" + taken.Addr().String(),
	}})
	testkit.Must(t, err)
	p, err := newProcess(t.Context(), cfg.Log, io.Discard, io.Discard)
	testkit.Must(t, err)
	if p.begin(t.Context(), cfg) == nil {
		t.Fatal("an address that is in use was opened")
	}
	again, err := net.Listen("tcp", public)
	if err != nil {
		t.Fatalf("the public address is still held: %v", err)
	}
	_ = again.Close()
}
