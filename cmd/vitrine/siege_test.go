package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// idlers is how many connections are open that nobody uses.
const idlers = 10_000

// TestUnderSiege begins each attack on a vitrine with ten thousand idle connections. Memory stays
// within 25 MB plus 12 times the documents and 12 KB for each connection, hits are answered, and
// SIGTERM ends it within the time for that. With -v it prints the table of docs/threats.md, with the
// p99 of ordinary hits, which on a machine that others use says little.
func TestUnderSiege(t *testing.T) {
	if testing.Short() || testkit.Race {
		t.Skip("takes minutes, and the race detector's memory is not vitrine's: run it without -short and -race")
	}
	if _, err := exec.LookPath("wrk"); err != nil {
		t.Skip("wrk is not installed: apt-get install wrk")
	}
	cms := upstreamtest.New(t)
	banners := make([]string, 2000)
	for i := range banners {
		banners[i] = bannerOf(i, fmt.Sprintf("%x %d", i*2654435761, i))
	}
	document := "[" + strings.Join(banners, ",") + "]"
	cms.Set(shape.Banners, document)
	table := []string{"| beside 10,000 idle connections | p99 of ordinary hits | beside 64 ordinary clients | times | memory at most | budget | SIGTERM ends it after |", "|---|---|---|---|---|---|---|"}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			got := besiege(t, cms.URL, len(document), a.run)
			got.budget += a.more
			times := float64(got.p99) / float64(got.usual)
			row := fmt.Sprintf("| %s | %.1f ms | %.1f ms | %.1f | %.0f MB | %.0f MB | %v |", a.name, got.p99.Seconds()*1000, got.usual.Seconds()*1000, times,
				float64(got.memory)/1e6, float64(got.budget)/1e6, got.ended.Round(10*time.Millisecond))
			t.Log(row)
			table = append(table, row)
			if got.memory > got.budget {
				t.Errorf("%d bytes of memory, want at most %d", got.memory, got.budget)
			}
			if got.ended > siegeShutdown+3*time.Second {
				t.Errorf("SIGTERM ended it after %v", got.ended)
			}
		})
	}
	t.Log("\n" + strings.Join(table, "\n"))
}

// An outcome is what an attack did.
type outcome struct {
	usual, p99     time.Duration
	memory, budget int
	ended          time.Duration
}

// siegeShutdown is the time that SIGTERM leaves.
const siegeShutdown = 2 * time.Second

func besiege(t *testing.T, cms string, document int, attack func(*siege)) (got outcome) {
	t.Helper()
	s := &siege{public: freeAddress(t), operator: freeAddress(t), store: freeAddress(t)}
	vitrine := exec.Command("vitrine", "serve")
	vitrine.Env = append(os.Environ(), "VITRINE_LISTEN="+s.public, "VITRINE_ADMIN_LISTEN="+s.operator, "VITRINE_REDIS_URL=embedded:a-password@"+s.store,
		"VITRINE_UPSTREAM_URL="+cms, "VITRINE_TTL=1h", "VITRINE_HOOK_SECRET=a-secret-of-the-hook", "VITRINE_SHUTDOWN_TIMEOUT="+siegeShutdown.String(),
		"VITRINE_LOG_LEVEL=error", "GOMAXPROCS=2")
	vitrine.Stdout, vitrine.Stderr = io.Discard, t.Output()
	if err := vitrine.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- vitrine.Wait() }()
	for _, path := range routes {
		if err := testkit.Retry(func() error { return isWellAt("http://" + s.public + path) }); err != nil {
			t.Fatal(err)
		}
	}
	var quiet []net.Conn
	for i := range idlers {
		c, err := net.Dial("tcp", s.public)
		if err != nil {
			t.Fatalf("after %d connections: %v", i, err)
		}
		quiet = append(quiet, c)
	}
	stop := make(chan struct{})
	var watching sync.WaitGroup
	most := int64(0)
	watching.Go(func() {
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				got.memory, most = max(got.memory, anonymous(vitrine.Process.Pid)), max(most, s.open.Load())
			}
		}
	})
	s.begin(visits)
	got.usual = hitsP99(t, s.public)
	s.end()
	s.begin(attack)
	got.p99 = hitsP99(t, s.public)
	close(stop)
	watching.Wait()
	began := time.Now()
	_ = vitrine.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-exited:
		got.ended = time.Since(began)
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * testkit.Patience):
		t.Error("SIGTERM does not end it")
		_ = vitrine.Process.Kill()
		t.Log(<-exited)
	}
	s.end()
	for _, c := range quiet {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // nothing is to be waited for
		}
		_ = c.Close()
	}
	got.budget = 25_000_000 + 12*(document+60_000) + connectionBudget*(len(quiet)+int(most))
	return got
}

var p99Line = regexp.MustCompile(`(?m)^\s*99%\s+(\S+)`)

// hitsP99 is the 99th percentile of ordinary hits, from eight connections in two seconds.
func hitsP99(t *testing.T, address string) time.Duration {
	t.Helper()
	out, err := exec.Command("wrk", "-t1", "-c8", "-d2s", "--latency", "http://"+address+"/cms/rules/").CombinedOutput()
	found := p99Line.FindSubmatch(out)
	if err != nil || found == nil || strings.Contains(string(out), "Non-2xx") {
		t.Fatalf("wrk: %v\n%s", err, out)
	}
	p99, err := time.ParseDuration(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	if p99 == 0 { // nobody was answered
		return 2 * time.Second
	}
	return p99
}
