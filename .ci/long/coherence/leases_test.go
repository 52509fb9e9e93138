package coherence

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cache/coherence"
	"vitrine/cache/redistest"
	"vitrine/cache/watch"
)

// TestALeaseIsRespectedByReplicasWithOtherLimits has two replicas ask at once, all the time, while
// a load takes longer than it takes to ask again.
func TestALeaseIsRespectedByReplicasWithOtherLimits(t *testing.T) {
	for name, test := range map[string]struct {
		limits [2]time.Duration // of a fetch
		size   int
	}{
		"fetches of 100 s and 2 s": {[2]time.Duration{100 * time.Second, 2 * time.Second}, 0},
		"documents of 40 MiB":      {[2]time.Duration{10 * time.Second, 10 * time.Second}, 40 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			origins := coherence.NewOrigins(0, "banners")
			o := origins["banners"]
			o.Size = test.size
			var nodes []*coherence.Node
			for i, limit := range test.limits {
				nodes = append(nodes, coherence.StartFleet(t, server.URL(), 1, origins, coherence.Setup{Name: fmt.Sprint(i), Timeout: coherence.Patient, Options: func(key string, o *cache.ReaderOptions[int64]) {
					coherence.Long(key, o)
					o.FetchTimeout = limit
				}})...)
			}
			for round := range int64(3) {
				version, release := o.Version.Add(1), o.Hold()
				must(t, server.Client().Del(t.Context(), coherence.Prefix+"banners").Err())
				var readers sync.WaitGroup
				for i, n := range nodes {
					readers.Go(func() {
						if i != int(round)%2 { // the other one takes the lease
							eventually(t, "a load has begun", func() bool { return len(o.Entered) > 0 })
						}
						for got, err := int64(0), error(nil); got != version; got, _, err = n.Get(t.Context(), "banners") {
							if err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				eventually(t, "a load has begun", func() bool { return len(o.Entered) > 0 })
				watch.Sleep(t.Context(), 500*time.Millisecond)
				release()
				readers.Wait()
				for len(o.Entered) > 0 {
					<-o.Entered
				}
				if n := o.Loads.Load(); n != round+1 {
					t.Fatalf("%d loads after %d purges", n, round+1)
				}
			}
		})
	}
}

// TestFailoverLeavesNoConnectionBehind has three Sentinels promote the replica of a master that
// still answers, while replicas of vitrine read from it.
func TestFailoverLeavesNoConnectionBehind(t *testing.T) {
	const group = "vitrine-test"
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replica := redistest.Start(t, "--replicaof", "127.0.0.1", strconv.Itoa(master.Port))
	var sentinels []*redistest.Server
	for range 3 {
		sentinels = append(sentinels, redistest.StartAs(t, func(dir string, port int) []string {
			conf := filepath.Join(dir, "sentinel.conf")
			text := fmt.Sprintf("port %[1]d\nbind 127.0.0.1\ndir %[2]s\nlogfile %[2]s/redis.log\nsentinel monitor %[3]s 127.0.0.1 %[4]d 2\n"+
				"sentinel down-after-milliseconds %[3]s 500\nsentinel failover-timeout %[3]s 3000\n", port, dir, group, master.Port)
			must(t, os.WriteFile(conf, []byte(text), 0o600))
			return []string{conf, "--sentinel"}
		}))
	}
	eventually(t, "the Sentinels know each other and the replica", func() bool {
		for _, s := range sentinels {
			text := fmt.Sprint(s.Client().Do(t.Context(), "sentinel", "master", group).Val())
			if !strings.Contains(text, "num-other-sentinels:2") || !strings.Contains(text, "num-slaves:1") {
				return false
			}
		}
		return true
	})
	url := fmt.Sprintf("redis://%s?master_name=%s&addr=%s&addr=%s", sentinels[0].Addr, group, sentinels[1].Addr, sentinels[2].Addr)
	origins := coherence.NewOrigins(5*time.Millisecond, coherence.Keys...)
	nodes := coherence.StartFleet(t, url, 2, origins, coherence.Setup{})
	reading, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for i := range 50 {
		readers.Go(func() {
			for reading.Err() == nil {
				if _, _, err := nodes[i%2].Get(reading, coherence.Keys[i%3]); err != nil && reading.Err() == nil {
					t.Error(err)
				}
				if i == 0 { // so that calls are under way
					origins["banners"].Version.Add(1)
					_ = master.Client().Del(reading, coherence.Prefix+"banners").Err()
				}
				watch.Sleep(reading, time.Millisecond)
			}
		})
	}
	watch.Sleep(t.Context(), time.Second)
	must(t, master.Client().Do(t.Context(), "CLIENT", "PAUSE", "1500", "ALL").Err()) // calls are under way
	must(t, sentinels[0].Client().Do(t.Context(), "sentinel", "failover", group).Err())
	eventually(t, "the replica is promoted, and listened to", func() bool {
		return len(tracking.FindAllString(replica.Client().ClientList(t.Context()).Val(), -1)) >= 2
	})
	watch.Sleep(t.Context(), 2*time.Second)
	stop()
	readers.Wait()
	left := ""
	eventually(t, "nobody is connected to the old master any more", func() bool {
		left = vitrines(master.Client().ClientList(t.Context()).Val())
		return left == "" || t.Context().Err() != nil
	})
}

// vitrines are the connections of a CLIENT LIST that are neither this test's nor other servers'.
func vitrines(list string) (left string) {
	for line := range strings.Lines(list) {
		if !others.MatchString(line) {
			left += line
		}
	}
	return left
}

var others = regexp.MustCompile(`name=sentinel|cmd=(replconf|psync|publish|client\|list|subscribe|del) |flags=[A-Za-z]*[SM]`)
