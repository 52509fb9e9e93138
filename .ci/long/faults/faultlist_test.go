package faults

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// A fault is something that goes wrong around the process, or with it.
type fault struct {
	name       string
	begin, end func()
	says       says
}

// says is where an operator can read of a fault while it lasts; an empty one does not say it.
type says struct {
	detail string // one of these words of Cache-Status
	log    string
	metric string // with its value
	status string // in /api/status, which the page shows
}

func none() {}

// The faults of those who lie, each of which is tried with every fault of the CMS.
const lyingRedis, plantedKeys, lyingEndpoint = "Redis lies", "Redis has planted keys", "endpoint switches protocols, and is silent"

// flapping is a fault that ends every third time.
func flapping(name string, every time.Duration, on, off func()) fault {
	var stop chan struct{}
	var task sync.WaitGroup
	return fault{name, func() {
		stop = make(chan struct{})
		task.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for i := 0; ; i++ {
				if i%3 == 0 {
					off()
				} else {
					on()
				}
				select {
				case <-stop:
					off()
					return
				case <-tick.C:
				}
			}
		})
	}, func() { close(stop); task.Wait() }, says{}}
}

func (tr *trial) faultsOfTheCMS() []fault {
	release := none
	serve := func(h http.Handler) func() { return func() { tr.CMS.Handle(shape.Banners, h) } }
	current := func() { tr.CMS.Set(shape.Banners, tr.Banners()) }
	var asked atomic.Int64
	sometimes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%3 == 0 {
			upstreamtest.JSON(tr.Banners()).ServeHTTP(w, r)
		} else {
			upstreamtest.Status(http.StatusServiceUnavailable).ServeHTTP(w, r)
		}
	})
	const stale = "stale-if-error"
	fails := func(outcome, log string) says {
		return says{stale, log, `vitrine_upstream_fetches_total{outcome="` + outcome + `",resource="banners"} `, `"failing": true`}
	}
	return []fault{
		{"CMS refuses connections", tr.CMS.Down, tr.CMS.Up, fails("unreachable", "cannot fetch")},
		{"CMS fails", func() { tr.CMS.Fail(500) }, tr.CMS.Recover, fails("answer", "cannot fetch")},
		{"CMS hangs", func() { release = tr.CMS.Block() }, func() { release() }, fails("timeout", "cannot fetch")},
		flapping("CMS is slow", 150*time.Millisecond, func() { release(); release = tr.CMS.Block() }, func() { release() }),
		{"CMS sends nothing", serve(upstreamtest.JSON("")), current, fails("answer", "cannot fetch")},
		{"CMS sends another type", serve(upstreamtest.JSON(`{"id":0}`)), current, fails("refused", "rejected the CMS's document")},
		{"CMS answers one time in three", serve(sometimes), current, says{log: `"cannot fetch"`}},
		flapping("CMS flaps", 40*time.Millisecond, func() { tr.CMS.Fail(503) }, tr.CMS.Recover),
	}
}

func (tr *trial) faultsOfRedis() []fault {
	ctx := context.Background()
	client := tr.redis.Client()
	check := func(err error) {
		testkit.Check(tr.t, err)
	}
	set := func(name, value string) func() {
		return func() { check(client.ConfigSet(ctx, name, value).Err()) }
	}
	var kept *redis.Conn
	away := says{"redis-away", `redis unreachable`, "vitrine_redis_up 0", `"up": false`}
	refuses := says{"redis-refused", `redis refuses writes`, "vitrine_redis_refuses_writes 1", `"refusing": "`}
	lies, told := slices.Sorted(maps.Keys(redistest.Lies)), 0
	return []fault{
		{lyingRedis, func() { tr.way.Lie(redistest.Lies[lies[told%len(lies)]]); told++ }, func() { tr.way.Heal(); tr.way.Drop() }, says{log: `"msg":"redis `}},
		{"Redis is killed", tr.redis.Kill, tr.redis.Restart, away},
		{"Redis restarts empty", tr.redis.Restart, none, says{log: `redis lost its data`}},
		{"Redis loads", func() {
			check(client.Do(ctx, "debug", "populate", "1500", "filler", "100").Err())
			check(client.Save(ctx).Err())
			tr.redis.Restart()
		}, func() {
			testkit.Check(tr.t, testkit.Retry(func() error { return client.Del(ctx, "filler:0").Err() }))
			dir := client.ConfigGet(ctx, "dir").Val()["dir"]
			check(os.Remove(filepath.Join(dir, "dump.rdb")))
			check(client.Eval(ctx, `for i = 1, 1499 do redis.call('DEL', 'filler:' .. i) end return 0`, nil).Err())
		}, away},
		{"Redis hangs", tr.redis.Pause, tr.redis.Resume, away},
		flapping("Redis is slow", time.Millisecond, func() { check(client.Do(ctx, "debug", "sleep", "0.04").Err()) }, none),
		{"Redis is read-only", set("min-replicas-to-write", "1"), set("min-replicas-to-write", "0"), refuses},
		{"Redis is out of memory", set("maxmemory", "1"), set("maxmemory", "0"), refuses},
		{"Redis has another password", func() {
			kept = client.Conn()
			check(kept.ConfigSet(ctx, "requirepass", "another").Err())
			check(kept.Do(ctx, "client", "kill", "type", "normal", "skipme", "yes").Err())
		}, func() {
			check(kept.ConfigSet(ctx, "requirepass", "").Err())
			check(kept.Close())
		}, away},
		{"Redis has a string for the document", func() { check(client.Set(ctx, "vitrine:banners", "a string", 0).Err()) },
			func() { // the string, not what has taken its place: that would be a purge
				check(client.Eval(ctx, `return redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('DEL', KEYS[1]) or 0`, []string{"vitrine:banners"}).Err())
			}, says{log: `purge received`}},
		{plantedKeys, func() {
			for _, r := range shape.Resources() {
				lock, history := "vitrine:lease:{vitrine:"+string(r)+"}", "vitrine:history:{vitrine:"+string(r)+"}"
				ahead, beyond := time.Now().Add(time.Hour).UnixMilli(), "999999999999999"
				fields := client.HKeys(ctx, lock).Val()
				_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
					p.HSet(ctx, lock, "held_since", ahead, "held_seq", beyond, "wanted_until", beyond, "purged_by", beyond+" "+strings.Repeat("x", 1<<20),
						"released", beyond+" x", "until", ahead, "until_seq", beyond)
					for _, name := range fields {
						switch kind, _, _ := strings.Cut(name, ":"); kind {
						case "notified":
							p.HSet(ctx, lock, name, beyond+" x x "+beyond)
						case "notifying":
							p.HSet(ctx, lock, name, fmt.Sprintf("x/1 %d 999", ahead))
						}
					}
					for i := range 200 {
						p.HSet(ctx, history, fmt.Sprintf("%012x", i), `{"at":`+beyond+`}`, fmt.Sprintf("%012x:body", i), "\x28\xb5\x2f\xfd\xa4\xff\xff\xff\x7f")
					}
					return nil
				})
				check(err)
			}
		}, none, says{}},
		{"Redis's clock is an hour ahead", func() { tr.setRedis(1) }, func() { tr.setRedis(0) }, says{}},
		{"Redis's clock is an hour behind", func() { tr.setRedis(-1) }, func() { tr.setRedis(0) }, says{}},
		flapping("Redis flaps", 40*time.Millisecond, tr.redis.Pause, tr.redis.Resume),
	}
}

func (tr *trial) faultsOfTheProcess() []fault {
	var opened []net.Conn
	return []fault{
		{"vitrine is stopped for a while", tr.signal(syscall.SIGSTOP), tr.signal(syscall.SIGCONT), says{}},
		{"vitrine is killed in mid-fill", tr.kill, none, says{log: `"serving"`}},
		{"vitrine is out of descriptors", func() {
			for i := range 500 {
				address := tr.public
				if i%2 == 0 {
					address = tr.operator
				}
				c, err := net.Dial("tcp", address)
				if err != nil {
					tr.t.Error(err)
					continue
				}
				opened = append(opened, c)
			}
		}, func() {
			for _, c := range opened {
				_ = c.Close() // nothing is awaited from it
			}
			opened = nil
		}, says{}},
		{"vitrine's clock is an hour ahead", tr.signal(syscall.SIGUSR1), tr.signal(syscall.SIGUSR2), says{}},
		{"vitrine's clock is an hour behind", tr.signal(syscall.SIGUSR2), tr.signal(syscall.SIGUSR1), says{}},
	}
}

// unsaid lists the signs of a fault that are missing; log and metrics are those from before.
func (tr *trial) unsaid(s says, log, metrics string) (missing []string) {
	tr.mu.Lock()
	if s.detail != "" && !tr.details[s.detail] {
		missing = append(missing, "detail="+s.detail)
	}
	tr.mu.Unlock()
	if !strings.Contains(strings.TrimPrefix(tr.log.String(), log), s.log) {
		missing = append(missing, "log "+s.log)
	}
	if s.metric != "" {
		text, _ := tr.operatorSays("/metrics")
		if !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
			return strings.HasPrefix(line, s.metric) && !strings.Contains(metrics, "\n"+line+"\n")
		}) {
			missing = append(missing, "metric "+s.metric)
		}
	}
	if text, _ := tr.operatorSays("/api/status"); s.status != "" && !strings.Contains(text, s.status) {
		missing = append(missing, "status "+s.status)
	}
	return missing
}

// anHour lets the signals USR1 and USR2 set the clock of a process forward and back by an hour. The
// monotonic clock runs on, as when a machine's clock is set.
func anHour(t *testing.T) []harness.Change {
	t.Helper()
	folder, err := exec.Command("go", "list", "-f", "{{.Dir}}", "time").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	library := filepath.Join(strings.TrimSpace(string(folder)), "time.go")
	const now = "	sec, nsec, mono := runtimeNow()\n"
	return []harness.Change{
		{File: library, From: "func Now() Time {\n" + now, To: "var Step int64\n\nfunc Now() Time {\n" + now + "	sec += Step\n"},
		{File: filepath.Join(harness.Root, "cmd", "vitrine", "step.go"), To: `package main

import ("os"; "os/signal"; "syscall"; "time")

func init() {
	c := make(chan os.Signal, 10)
	signal.Notify(c, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for s := range c {
			if s == syscall.SIGUSR1 { time.Step += 3600 } else { time.Step -= 3600 }
		}
	}()
}
`},
	}
}

// redisWithAClock starts a Redis whose wall clock set sets, by so many hours.
func redisWithAClock(t *testing.T, args ...string) (server *redistest.Server, set func(hours int)) {
	t.Helper()
	redistest.Require(t)
	harness.Need(t, "cc", "gcc")
	dir := t.TempDir()
	clock, library, script := filepath.Join(dir, "clock"), filepath.Join(dir, "clock.so"), filepath.Join(dir, "redis-server")
	if output, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", library, filepath.Join("testdata", "clock.c")).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, output)
	}
	file, err := os.Create(clock)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	set = func(hours int) {
		_, err := file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(hours)*3600)), 0)
		testkit.Check(t, err)
	}
	set(0)
	program, err := exec.LookPath("redis-server")
	testkit.Must(t, err)
	// On the path, for each start of the server.
	text := fmt.Sprintf("#!/bin/sh\nexec env LD_PRELOAD=%s CLOCK=%s %s \"$@\"\n", library, clock, program)
	testkit.Must(t, os.WriteFile(script, []byte(text), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return redistest.Start(t, args...), set
}
