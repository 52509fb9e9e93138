package cache

import (
	"strings"
	"testing"
	"time"
)

// failoverBound is how long after a failover is over, seen from the Sentinels or the Cluster, a
// purge may be overlooked.
const failoverBound = 2 * time.Second

func TestSentinelFailoverDoesNotKeepPurgesFromMemory(t *testing.T) {
	t.Parallel()
	group := startSentinels(t)
	src := newSource()
	var readers []*Reader[int64]
	for range 2 {
		_, r := replica(t, group.URL(), options(src))
		warm(t, r)
		readers = append(readers, r)
	}
	purgeReaches(t, src, readers, 50*time.Millisecond, func() error { return group.Master.Client().Del(t.Context(), key).Err() })

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
	for _, r := range readers {
		warm(t, r)
	}
	purgeReaches(t, src, readers, 50*time.Millisecond, purge)
}

func TestClusterSlotMoveAndFailoverDoNotKeepPurgesFromMemory(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	client := cluster.Client()
	src := newSource()
	var readers []*Reader[int64]
	for range 2 {
		_, r := replica(t, cluster.URL(), options(src))
		warm(t, r)
		readers = append(readers, r)
	}
	purge := func() error { return client.Del(t.Context(), key).Err() }
	purgeReaches(t, src, readers, 50*time.Millisecond, purge)

	owner, _ := cluster.Owner(key)
	other := cluster.Nodes[0]
	if other == owner {
		other = cluster.Nodes[1]
	}
	cluster.Move(key, other)
	for _, r := range readers {
		warm(t, r)
	}
	purgeReaches(t, src, readers, 50*time.Millisecond, purge)

	other.Pause()
	eventually(t, "a replica is master", func() bool {
		client.ReloadState(t.Context())
		return client.Exists(t.Context(), key).Err() == nil
	})
	purgeReaches(t, src, readers, failoverBound, purge)
	for _, r := range readers {
		warm(t, r)
	}
	purgeReaches(t, src, readers, 50*time.Millisecond, purge)
	other.Resume()
}

// purgeReaches raises the version, purges, and demands that after the bound no reader gives an
// older version.
func purgeReaches(t *testing.T, src *source, readers []*Reader[int64], bound time.Duration, purge func() error) {
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
