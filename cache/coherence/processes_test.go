package coherence

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// TestProcessesAreAsCoherent is TestNoReplicaServesWhatWasPurged with replicas that are processes
// of their own.
func TestProcessesAreAsCoherent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	origins := newOrigins(5*time.Millisecond, keys...)
	source := serveOrigins(t, origins, nil)
	c := &campaign{origins: origins, replicas: map[string]replica{}, burst: 1, purge: operator(server.Client()), kinds: all, soft: soft}
	for i := range 4 {
		name := fmt.Sprintf("process %d", i+1)
		c.replicas[name] = startProcess(t, spec{Name: name[len("process "):], Redis: server.URL(), Source: source})
	}
	c.begin(t)
	testkit.Within(t, time.Minute, "the purges are made", func() bool { return c.acked.Load() >= count(1000) || t.Failed() })
	v := c.end()
	v.report(t, c)
	c.mostlyHeld(t, v)
}

// TestAStoppedProcessServesNothingOld stops one process after the other at random moments, and lets
// it go on after what was true then is no longer: between any two steps of a look, of a flight, and
// of an answer.
func TestAStoppedProcessServesNothingOld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	origins := newOrigins(5*time.Millisecond, keys...)
	source := serveOrigins(t, origins, nil)
	c := &campaign{origins: origins, replicas: map[string]replica{}, burst: 1, purge: operator(server.Client()), kinds: all, soft: soft}
	var processes []*process
	for i := range 3 {
		name := fmt.Sprintf("process %d", i+1)
		p := startProcess(t, spec{Name: name[len("process "):], Redis: server.URL(), Source: source})
		processes, c.replicas[name] = append(processes, p), p
	}
	c.begin(t)
	chance, stops := rand.New(rand.NewPCG(c.seed, 0)), int64(0)
	for ; stops < count(200) && !t.Failed(); stops++ {
		p := processes[chance.IntN(len(processes))].cmd.Process
		must(t, p.Signal(syscall.SIGSTOP))
		pause(t.Context(), time.Duration(chance.Int64N(int64(3*bound))))
		must(t, p.Signal(syscall.SIGCONT))
		pause(t.Context(), time.Duration(chance.Int64N(int64(bound))))
	}
	v := c.end()
	v.report(t, c)
	c.mostlyHeld(t, v)
	t.Logf("%d stops", stops)
}

// TestReplicaKilledInMidFillDelaysTheOthersByNoMoreThanItsLease kills whichever process makes the
// fetch that follows a purge: after a hard one the others have to wait, after a soft one they have
// something to serve.
func TestReplicaKilledInMidFillDelaysTheOthersByNoMoreThanItsLease(t *testing.T) {
	t.Parallel()
	const (
		fetchTimeout = time.Second
		lease        = fetchTimeout + time.Second // see FetchTimeout: the second is for the calls to Redis around the fetch
		margin       = 500 * time.Millisecond     // for the successor's own fetch, on a busy machine
		key          = "banners"
	)
	for _, kind := range []string{"DEL", "HSET"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			origins := newOrigins(0, keys...)
			loading := make(chan string, 1)
			source := serveOrigins(t, origins, loading)
			processes := map[string]*process{}
			for _, name := range []string{"1", "2", "3", "4"} {
				processes[name] = startProcess(t, spec{Name: name, Redis: server.URL(), Source: source, Long: true, FetchTimeout: fetchTimeout, Patience: patient})
			}
			for _, p := range processes {
				_, _, err := p.get(t.Context(), key)
				must(t, err)
			}
			<-loading

			want := origins[key].version.Add(1)
			release := origins[key].hold()
			_, err := operator(server.Client())(t.Context(), kind, key)
			must(t, err)
			// All are asked at once, and go on being asked until they have the new version.
			answers := make(chan error, len(processes))
			for name, p := range processes {
				go func() {
					for {
						version, _, err := p.get(t.Context(), key)
						switch {
						case err != nil:
							answers <- fmt.Errorf("process %s: %w", name, err)
							return
						case version == want:
							answers <- nil
							return
						}
						pause(t.Context(), time.Millisecond)
					}
				}()
			}
			holder := <-loading
			<-origins[key].entered
			killed, elapsed := time.Now(), testkit.Stopwatch(t)
			must(t, processes[holder].cmd.Process.Kill())
			release()

			failed := 0
			for range processes {
				if err := <-answers; err != nil {
					if failed++; failed > 1 || !strings.HasPrefix(err.Error(), "process "+holder+":") {
						t.Error(err)
					}
				}
			}
			took := time.Since(killed)
			t.Logf("all others had the new version %v after the death, under a lease of %v", took.Round(time.Millisecond), lease)
			if elapsed() > lease+margin {
				t.Errorf("it took %v, want no more than the lease of %v", took, lease)
			}
			if n := origins[key].loads.Load(); n != 3 {
				t.Errorf("%d fetches, want the first, that of the dead and that of its successor", n)
			}
		})
	}
}
