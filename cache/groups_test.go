package cache

import (
	"slices"
	"strings"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// failoverBound is how long after a failover is over, seen from the Sentinels or the Cluster, a
// purge may be overlooked.
const failoverBound = 2 * time.Second

func TestSentinelFailoverDoesNotKeepPurgesFromMemory(t *testing.T) {
	t.Parallel()
	group := redistest.StartSentinels(t)
	src, readers := pair(t, group.URL())
	purgeIsFollowed(t, src, readers, func() error { return group.Master.Client().Del(t.Context(), key).Err() })

	// The master hangs, so that its connections stay open, and the replica takes over.
	eventually(t, "the replica has the copy", func() bool { return group.Replica.Client().Exists(t.Context(), key).Val() == 1 })
	group.Master.Pause()
	eventually(t, "the replica is master", func() bool {
		return strings.Contains(group.Replica.Client().Info(t.Context(), "replication").Val(), "role:master")
	})
	for _, r := range readers {
		get(t, r) // never an error, whatever it comes from
	}
	purge := func() error { return group.Replica.Client().Del(t.Context(), key).Err() }
	purgeReaches(t, src, readers, failoverBound, purge)
	group.Master.Resume() // it believes that it is master, for a while
	purgeReaches(t, src, readers, failoverBound, purge)
	purgeIsFollowed(t, src, readers, purge)
}

func TestClusterSlotMoveAndFailoverDoNotKeepPurgesFromMemory(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 15*time.Second)
	client := cluster.Client()
	src, readers := pair(t, cluster.URL())
	// One that got no reply in time is made again: it counts from the reply.
	purge := func() error { return testkit.Retry(func() error { return client.Del(t.Context(), key).Err() }) }
	purgeIsFollowed(t, src, readers, purge)

	owner, _ := cluster.Owner(key)
	other := cluster.Nodes[0]
	if other == owner {
		other = cluster.Nodes[1]
	}
	cluster.Move(key, other)
	purgeIsFollowed(t, src, readers, purge)

	other.Pause()
	successor := cluster.Nodes[3+slices.Index(cluster.Nodes, other)]
	must(t, successor.Client().Do(t.Context(), "cluster", "failover", "takeover").Err()) // an election takes 2 s
	eventually(t, "a replica is master", func() bool {
		client.ReloadState(t.Context())
		return client.Exists(t.Context(), key).Err() == nil
	})
	purgeReaches(t, src, readers, failoverBound, purge)
	purgeIsFollowed(t, src, readers, purge)
	other.Resume()
}

// pair is two replicas on the URL.
func pair(t *testing.T, url string) (src *cms, readers []*Reader[int64]) {
	t.Helper()
	src = newSource()
	for range 2 {
		_, r := replicaWith(t, prompt(url), options(src))
		readers = append(readers, r)
	}
	return src, readers
}

// purgeIsFollowed demands that readers that trust memory receive a purge as usual.
func purgeIsFollowed(t *testing.T, src *cms, readers []*Reader[int64], purge func() error) {
	t.Helper()
	for _, r := range readers {
		warm(t, r)
	}
	purgeReaches(t, src, readers, 50*time.Millisecond, purge)
}

// purgeReaches raises the version, purges, and demands that after the bound no reader gives an
// older version.
func purgeReaches(t *testing.T, src *cms, readers []*Reader[int64], bound time.Duration, purge func() error) {
	t.Helper()
	want := src.version.Add(1)
	must(t, purge())
	acknowledged := time.Now()
	for i, r := range readers {
		eventually(t, "the new version", func() bool {
			began := time.Now()
			a, err := r.Get(t.Context())
			if err == nil && a.Value < want && a.Status.Detail != DetailRedisAway && began.Sub(acknowledged) > bound {
				t.Fatalf("reader %d: version %d, want %d, %v after the purge: %+v", i, a.Value, want, began.Sub(acknowledged), a.Status)
			}
			return err == nil && a.Value >= want
		})
	}
	t.Logf("purge reached all readers in %v", time.Since(acknowledged).Round(100*time.Microsecond))
}
