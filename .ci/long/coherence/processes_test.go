package coherence

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// TestAStoppedProcessServesNothingOld stops one process after the other at random moments, and lets
// it go on after what was true then is no longer: between any two steps of a poll, of a load, and
// of an answer. One in ten stands still for longer than its lease.
func TestAStoppedProcessServesNothingOld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	origins := NewOrigins(5*time.Millisecond, Keys...)
	source := serveOrigins(t, origins)
	c := &Campaign{Origins: origins, Replicas: map[string]Replica{}, Burst: 1, Purge: Operator(server.Client()), Kinds: All, Seed: *seed}
	var processes []*process
	for i := range 3 {
		name := fmt.Sprintf("process %d", i+1)
		p := startProcess(t, spec{Redis: server.URL(), Source: source})
		processes, c.Replicas[name] = append(processes, p), p
	}
	c.Begin(t)
	chance, stops := rand.New(rand.NewPCG(c.Seed, 0)), int64(0)
	for ; stops < count(t, 50) && !t.Failed(); stops++ {
		p := processes[chance.IntN(len(processes))].cmd.Process
		must(t, p.Signal(syscall.SIGSTOP))
		still := time.Duration(chance.Int64N(int64(3 * Bound)))
		if stops%10 == 9 {
			still += lease
		}
		poll.Sleep(t.Context(), still)
		must(t, p.Signal(syscall.SIGCONT))
		poll.Sleep(t.Context(), time.Duration(chance.Int64N(int64(Bound))))
	}
	v := c.End()
	c.Report(t, v)
	c.MostlyHeld(t, v)
	judge(t, v)
}

// lease is how long an owner that is dead holds up the others.
const lease = 2 * time.Second

// TestAKilledOwnerDelaysTheOthersByNoMoreThanItsLease kills whichever process makes the fetch that
// follows a purge, at a step of it: after a hard purge the others have to wait, after a soft one they
// have something to serve.
func TestAKilledOwnerDelaysTheOthersByNoMoreThanItsLease(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"DEL", "HSET"} {
		for _, step := range []string{"acquired", "loading", "filling", "filled"} {
			t.Run(kind+", "+step, func(t *testing.T) {
				t.Parallel()
				killOwner(t, kind, step)
			})
		}
	}
}

func killOwner(t *testing.T, kind, step string) {
	const (
		margin = 500 * time.Millisecond // for the successor's own fetch, on a busy machine
		key    = "banners"
		record = Prefix + "lease:{" + Prefix + key + "}"
	)
	server := redistest.Start(t)
	redis, o := server.Client(), NewOrigin(0)
	source := serveOrigins(t, map[string]*Origin{key: o})
	processes := map[int]*process{} // by id, which stands in the token of a lease
	for range 4 {
		p := startProcess(t, spec{Redis: server.URL(), Source: source, Long: true, FetchTimeout: 10 * time.Second, Patience: Patient})
		_, _, err := p.Get(t.Context(), key)
		must(t, err)
		processes[p.cmd.Process.Pid] = p
	}
	want, release := o.Version.Add(1), o.Hold()
	_, err := Operator(redis)(t.Context(), kind, key)
	must(t, err)
	// All are asked at once, and go on being asked until they have the new version.
	answers := make(chan error, len(processes))
	for pid, p := range processes {
		go func() {
			for {
				version, _, err := p.Get(t.Context(), key)
				if err != nil {
					err = fmt.Errorf("process %d: %w", pid, err)
				}
				if err != nil || version == want {
					answers <- err
					return
				}
				poll.Sleep(t.Context(), time.Millisecond)
			}
		}()
	}
	owner := 0
	eventually(t, "a process has the lease", func() bool {
		_, _ = fmt.Sscanf(strings.Join(strings.Split(redis.HGet(t.Context(), record, "lease").Val()+"/0", "/")[1:2], ""), "%d", &owner)
		return processes[owner] != nil
	})
	if step != "acquired" {
		<-o.Entered
	}
	switch step {
	case "filling": // Redis reads what the owner has sent once it is dead, or nothing
		server.Pause()
		release()
		poll.Sleep(t.Context(), 100*time.Millisecond)
	case "filled":
		release()
		eventually(t, "it is filled", func() bool {
			return redis.HGet(t.Context(), Prefix+key, "body").Val() == string(Body(want))
		})
	}
	killed, elapsed := time.Now(), testkit.Stopwatch(t)
	must(t, processes[owner].cmd.Process.Kill())
	if step == "filling" {
		server.Resume()
	}
	release()
	failed := 0
	for range processes {
		if err := <-answers; err != nil {
			if failed++; failed > 1 || !strings.HasPrefix(err.Error(), fmt.Sprintf("process %d:", owner)) {
				t.Error(err)
			}
		}
	}
	took := time.Since(killed)
	t.Logf("all others had the new version %v after the death", took.Round(time.Millisecond))
	if elapsed() > lease+margin {
		t.Errorf("it took %v, want no more than the lease of %v", took, lease)
	}
	if n := o.Loads.Load(); n > 3 {
		t.Errorf("%d fetches, want at most the first, that of the dead and that of its successor", n)
	}
}

// childEnv makes the test binary a replica: it holds a spec, as JSON.
const childEnv = "VITRINE_COHERENCE_REPLICA"

// A spec is what a replica that is a process of its own has to know.
type spec struct {
	Redis, Source string
	Long          bool          // documents live so long that only a purge has them fetched
	FetchTimeout  time.Duration // 0: as in a campaign
	Patience      time.Duration // with Redis; 0: the usual one
}

// reading is what a process answers.
type reading struct {
	Version int64
	Status  cache.Status
	Error   string
}

// child is the whole program of a replica: it says on standard output where it listens, and ends
// with standard input.
func child(encoded string) int {
	err := func() error {
		var s spec
		if err := json.Unmarshal([]byte(encoded), &s); err != nil {
			return err
		}
		ctx := context.Background()
		store, err := cache.Open(ctx, cache.Options{URL: s.Redis, Timeout: s.Patience})
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }()
		readers := map[string]*cache.Reader[int64]{}
		for _, key := range Keys {
			o := ReaderOptions(key, remote(s))
			if s.Long {
				Long(key, &o)
			}
			if s.FetchTimeout > 0 {
				o.FetchTimeout = s.FetchTimeout
			}
			if readers[key], err = cache.NewReader(store, key, o); err != nil {
				return err
			}
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/listening" {
				_ = json.NewEncoder(w).Encode(store.Answering())
				return
			}
			a, err := readers[strings.TrimPrefix(r.URL.Path, "/")].Get(r.Context())
			answer := reading{Version: a.Value, Status: a.Status}
			if err != nil {
				answer.Error = err.Error()
			}
			_ = json.NewEncoder(w).Encode(answer)
		})}
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			_ = server.Close()
		}()
		if _, err := fmt.Fprintln(os.Stdout, listener.Addr()); err != nil {
			return err
		}
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "replica:", err)
		return 1
	}
	return 0
}

// remote loads from the test's source.
func remote(s spec) cache.Loader {
	return cache.LoaderFunc(func(ctx context.Context, key string, _ *cache.Document) (cache.Loaded, error) {
		var version int64
		err := fetch(ctx, http.DefaultClient, s.Source+"/"+key, &version)
		return cache.Loaded{Body: Body(version), Status: 200}, err
	})
}

func fetch(ctx context.Context, client *http.Client, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return json.NewDecoder(resp.Body).Decode(into)
}

// serveOrigins is where processes load from.
func serveOrigins(t *testing.T, origins map[string]*Origin) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		version, err := origins[strings.TrimPrefix(r.URL.Path, "/")].Fetch(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(version)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// A process is a replica that runs by itself.
type process struct {
	url    string
	client *http.Client
	cmd    *exec.Cmd
	stdin  io.Closer
}

func startProcess(t *testing.T, s spec) *process {
	t.Helper()
	encoded, err := json.Marshal(s)
	must(t, err)
	p := &process{cmd: exec.Command(os.Args[0]), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(encoded))
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	must(t, err)
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	must(t, err)
	must(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = p.cmd.Wait()
		p.client.CloseIdleConnections()
	})
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	p.url = "http://" + strings.TrimSpace(addr)
	eventually(t, "purges are received", func() bool {
		var listening bool
		must(t, fetch(t.Context(), p.client, p.url+"/listening", &listening))
		return listening
	})
	return p
}

func (p *process) Get(ctx context.Context, key string) (int64, cache.Status, error) {
	var a reading
	if err := fetch(ctx, p.client, p.url+"/"+key, &a); err != nil {
		return 0, cache.Status{}, err
	}
	if a.Error != "" {
		return 0, a.Status, errors.New(a.Error)
	}
	return a.Version, a.Status, nil
}
