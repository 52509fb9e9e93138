package coherence

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"vitrine/cache/coherence"
	"vitrine/cache/redistest"
	"vitrine/cache/watch"
	"vitrine/cmd/testkit"
)

// TestAStoppedProcessServesNothingOld stops one process after the other at random moments, and lets
// it go on after what was true then is no longer: between any two steps of a look, of a flight, and
// of an answer.
func TestAStoppedProcessServesNothingOld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	origins := coherence.NewOrigins(5*time.Millisecond, coherence.Keys...)
	source := serveOrigins(t, origins, nil)
	c := &coherence.Campaign{Origins: origins, Replicas: map[string]coherence.Replica{}, Burst: 1, Purge: coherence.Operator(server.Client()), Kinds: coherence.All, Seed: *seed}
	var processes []*process
	for i := range 3 {
		name := fmt.Sprintf("process %d", i+1)
		p := startProcess(t, spec{Name: name[len("process "):], Redis: server.URL(), Source: source})
		processes, c.Replicas[name] = append(processes, p), p
	}
	c.Begin(t)
	chance, stops := rand.New(rand.NewPCG(c.Seed, 0)), int64(0)
	for ; stops < count(t, 50) && !t.Failed(); stops++ {
		p := processes[chance.IntN(len(processes))].cmd.Process
		must(t, p.Signal(syscall.SIGSTOP))
		watch.Sleep(t.Context(), time.Duration(chance.Int64N(int64(3*coherence.Bound))))
		must(t, p.Signal(syscall.SIGCONT))
		watch.Sleep(t.Context(), time.Duration(chance.Int64N(int64(coherence.Bound))))
	}
	v := c.End()
	c.Report(t, v)
	c.MostlyHeld(t, v)
	judge(t, v)
}

// TestReplicaKilledInMidFillDelaysTheOthersByNoMoreThanItsLease kills whichever process makes the
// fetch that follows a Purge: after a hard one the others have to wait, after a soft one they have
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
			origins := coherence.NewOrigins(0, coherence.Keys...)
			loading := make(chan string, 1)
			source := serveOrigins(t, origins, loading)
			processes := map[string]*process{}
			for _, name := range []string{"1", "2", "3", "4"} {
				processes[name] = startProcess(t, spec{Name: name, Redis: server.URL(), Source: source, Long: true, FetchTimeout: fetchTimeout, Patience: coherence.Patient})
			}
			for _, p := range processes {
				_, _, err := p.Get(t.Context(), key)
				must(t, err)
			}
			<-loading

			want := origins[key].Version.Add(1)
			release := origins[key].Hold()
			_, err := coherence.Operator(server.Client())(t.Context(), kind, key)
			must(t, err)
			// coherence.All are asked at once, and go on being asked until they have the new version.
			answers := make(chan error, len(processes))
			for name, p := range processes {
				go func() {
					for {
						version, _, err := p.Get(t.Context(), key)
						switch {
						case err != nil:
							answers <- fmt.Errorf("process %s: %w", name, err)
							return
						case version == want:
							answers <- nil
							return
						}
						watch.Sleep(t.Context(), time.Millisecond)
					}
				}()
			}
			holder := <-loading
			<-origins[key].Entered
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
			if n := origins[key].Loads.Load(); n != 3 {
				t.Errorf("%d fetches, want the first, that of the dead and that of its successor", n)
			}
		})
	}
}
