package coherence

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// TestALargeDocumentIsFetchedOnceByReplicasWithOtherLimits has two replicas ask for documents of
// 40 MiB at once, all the time, while a load takes longer than it takes to ask again.
func TestALargeDocumentIsFetchedOnceByReplicasWithOtherLimits(t *testing.T) {
	t.Parallel()
	server, origins := redistest.Start(t), NewOrigins(0, "banners")
	o := origins["banners"]
	o.Size = 40 << 20
	var nodes []*Node
	for _, limit := range []time.Duration{100 * time.Second, 2 * time.Second} {
		nodes = append(nodes, StartFleet(t, server.URL(), 1, origins, Setup{Timeout: Patient, Options: func(key string, o *cache.ReaderOptions[int64]) {
			Long(key, o)
			o.FetchTimeout = limit
		}})...)
	}
	for round := range int64(4) {
		version, release := o.Version.Add(1), o.Hold()
		must(t, server.Client().Del(t.Context(), Prefix+"banners").Err())
		begun := func() bool { return len(o.Entered) > 0 }
		var readers sync.WaitGroup
		for i, n := range nodes {
			readers.Go(func() {
				if i != int(round)%2 { // the other one takes the lease
					eventually(t, "a load has begun", begun)
				}
				for got, err := int64(0), error(nil); got != version && err == nil; {
					got, _, err = n.Get(t.Context(), "banners")
					testkit.Check(t, err)
				}
			})
		}
		eventually(t, "a load has begun", begun)
		poll.Sleep(t.Context(), 500*time.Millisecond)
		release()
		readers.Wait()
		for begun() {
			<-o.Entered
		}
		if n := o.Loads.Load(); n != round+1 {
			t.Fatalf("%d loads after %d purges", n, round+1)
		}
	}
}

// TestFailoverLeavesNoConnectionBehind has three Sentinels promote the replica of a master that
// still answers, while replicas of vitrine read from it.
func TestFailoverLeavesNoConnectionBehind(t *testing.T) {
	group := redistest.StartSentinels(t)
	master, replica := group.Master, group.Replica
	origins := NewOrigins(5*time.Millisecond, Keys...)
	nodes := StartFleet(t, group.URL(), 2, origins, Setup{})
	reading, stop := context.WithCancel(t.Context())
	purger := redis.NewClient(&redis.Options{Addr: master.Addr, MaxRetries: -1})
	var readers sync.WaitGroup
	for i := range 50 {
		readers.Go(func() {
			for reading.Err() == nil {
				if _, _, err := nodes[i%2].Get(reading, Keys[i%3]); err != nil && reading.Err() == nil {
					t.Error(err)
				}
				if i == 0 { // so that calls are under way
					origins["banners"].Version.Add(1)
					_ = purger.Del(reading, Prefix+"banners").Err()
				}
				poll.Sleep(reading, time.Millisecond)
			}
		})
	}
	poll.Sleep(t.Context(), time.Second)
	must(t, master.Client().Do(t.Context(), "CLIENT", "PAUSE", "1500", "ALL").Err()) // calls are under way
	must(t, group.Sentinels[0].Client().Do(t.Context(), "sentinel", "failover", redistest.MasterName).Err())
	eventually(t, "the replica is promoted, and polled", func() bool {
		return len(polling.FindAllString(replica.Client().ClientList(t.Context()).Val(), -1)) >= 2
	})
	poll.Sleep(t.Context(), 2*time.Second)
	stop()
	readers.Wait()
	must(t, purger.Close()) // it may have dialled for a call that was ended
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
