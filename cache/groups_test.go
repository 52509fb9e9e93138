package cache

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// A cluster is six nodes, three of them masters with a third of the slots each.
type cluster struct {
	Nodes []*redistest.Server // the first three are the first masters
	t     *testing.T
}

// startCluster starts the six processes and waits until they form a Cluster.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t}
	for range 6 {
		c.Nodes = append(c.Nodes, redistest.Start(t, "--repl-diskless-sync-delay", "0", "--cluster-enabled", "yes", "--cluster-node-timeout", "1000"))
	}
	ctx := t.Context()
	for i, n := range c.Nodes[:3] {
		from, to := i*5461, (i+1)*5461-1
		if i == 2 {
			to = 16383
		}
		must(t, n.Client().ClusterAddSlotsRange(ctx, from, to).Err())
	}
	first := c.Nodes[0]
	for _, n := range c.Nodes[1:] {
		must(t, n.Client().Do(ctx, "cluster", "meet", "127.0.0.1", first.Port).Err())
	}
	testkit.Eventually(t, "the nodes to meet", func() bool {
		for _, n := range c.Nodes {
			if strings.Count(n.Client().ClusterNodes(ctx).Val(), "connected") < 6 {
				return false
			}
		}
		return true
	})
	for i, n := range c.Nodes[3:] {
		id := c.Nodes[i].Client().ClusterMyID(ctx).Val()
		testkit.Eventually(t, "a node to become a replica", func() bool { return n.Client().ClusterReplicate(ctx, id).Err() == nil })
	}
	for _, n := range c.Nodes[3:] {
		// A replica that has never had its master's data cannot take over.
		testkit.Eventually(t, "a replica to have its data", func() bool {
			return strings.Contains(n.Client().Info(ctx, "replication").Val(), "master_link_status:up")
		})
	}
	testkit.Eventually(t, "the Cluster to be complete", func() bool {
		for _, n := range c.Nodes {
			if !strings.Contains(n.Client().ClusterInfo(ctx).Val(), "cluster_state:ok") {
				return false
			}
		}
		return strings.Count(first.Client().ClusterNodes(ctx).Val(), "slave") == 3
	})
	return c
}

// URL is the Cluster as a setting.
func (c *cluster) URL() string {
	return fmt.Sprintf("redis://%s?addr=%s&addr=%s", c.Nodes[0].Addr, c.Nodes[1].Addr, c.Nodes[2].Addr)
}

// Client is a client of the whole Cluster, closed with the test.
func (c *cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:       []string{c.Nodes[0].Addr, c.Nodes[1].Addr, c.Nodes[2].Addr},
		DialTimeout: time.Second, ReadTimeout: 300 * time.Millisecond, WriteTimeout: 300 * time.Millisecond, MaxRetries: -1,
	})
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Owner is the master that holds the key's slot, and the slot.
func (c *cluster) Owner(key string) (*redistest.Server, int) {
	c.t.Helper()
	ctx := c.t.Context()
	slot := int(c.Nodes[0].Client().ClusterKeySlot(ctx, key).Val())
	for _, n := range c.Nodes {
		// The others answer MOVED.
		if n.Client().Exists(ctx, key).Err() == nil {
			return n, slot
		}
	}
	c.t.Fatalf("no master holds slot %d", slot)
	return nil, 0
}

// Move moves the key's slot, with the key, to another master.
func (c *cluster) Move(key string, to *redistest.Server) {
	c.t.Helper()
	ctx := c.t.Context()
	from, slot := c.Owner(key)
	source, target := from.Client(), to.Client()
	sourceID, targetID := source.ClusterMyID(ctx).Val(), target.ClusterMyID(ctx).Val()
	must(c.t, target.Do(ctx, "cluster", "setslot", slot, "importing", sourceID).Err())
	must(c.t, source.Do(ctx, "cluster", "setslot", slot, "migrating", targetID).Err())
	for _, k := range source.ClusterGetKeysInSlot(ctx, slot, 100).Val() {
		must(c.t, source.Migrate(ctx, "127.0.0.1", strconv.Itoa(to.Port), k, 0, 5*time.Second).Err())
	}
	must(c.t, target.Do(ctx, "cluster", "setslot", slot, "node", targetID).Err())
	must(c.t, source.Do(ctx, "cluster", "setslot", slot, "node", targetID).Err())
}

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
	cluster := startCluster(t)
	client := cluster.Client()
	src, readers := pair(t, cluster.URL())
	purge := func() error { return client.Del(t.Context(), key).Err() }
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
func pair(t *testing.T, url string) (src *source, readers []*Reader[int64]) {
	t.Helper()
	src = newSource()
	for range 2 {
		_, r := replica(t, url, options(src))
		readers = append(readers, r)
	}
	return src, readers
}

// purgeIsFollowed demands that readers that trust memory receive a purge as usual.
func purgeIsFollowed(t *testing.T, src *source, readers []*Reader[int64], purge func() error) {
	t.Helper()
	for _, r := range readers {
		warm(t, r)
	}
	purgeReaches(t, src, readers, 50*time.Millisecond, purge)
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
