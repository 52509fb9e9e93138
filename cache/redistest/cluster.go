package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cmd/testkit"
)

// A Cluster is six nodes, three of them masters with a third of the slots each.
type Cluster struct {
	Nodes []*Server // the first three are the first masters
	t     testing.TB
}

// StartCluster starts the six processes and waits until they form a Cluster. A node that is silent for
// patience is replaced: where no test waits for that, it is longer than a busy machine stands still.
func StartCluster(t testing.TB, patience time.Duration) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for range 6 {
		c.Nodes = append(c.Nodes, Start(t, "--repl-diskless-sync-delay", "0", "--cluster-enabled", "yes", "--cluster-node-timeout", strconv.FormatInt(patience.Milliseconds(), 10)))
	}
	ctx := t.Context()
	for i, n := range c.Nodes[:3] {
		from, to := i*5461, (i+1)*5461-1
		if i == 2 {
			to = 16383
		}
		testkit.Must(t, n.Client().ClusterAddSlotsRange(ctx, from, to).Err())
	}
	first := c.Nodes[0]
	for _, n := range c.Nodes[1:] {
		testkit.Must(t, n.Client().Do(ctx, "cluster", "meet", "127.0.0.1", first.Port).Err())
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
func (c *Cluster) URL() string {
	return fmt.Sprintf("redis://%s?addr=%s&addr=%s", c.Nodes[0].Addr, c.Nodes[1].Addr, c.Nodes[2].Addr)
}

// Client is a client of the whole Cluster, closed with the test. It has a second for a node.
func (c *Cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:       []string{c.Nodes[0].Addr, c.Nodes[1].Addr, c.Nodes[2].Addr},
		DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second, MaxRetries: -1,
	})
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Owner is the master that holds the key's slot, and the slot.
func (c *Cluster) Owner(key string) (*Server, int) {
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
func (c *Cluster) Move(key string, to *Server) {
	c.t.Helper()
	ctx := c.t.Context()
	from, slot := c.Owner(key)
	source, target := from.Client(), to.Client()
	sourceID, targetID := source.ClusterMyID(ctx).Val(), target.ClusterMyID(ctx).Val()
	testkit.Must(c.t, target.Do(ctx, "cluster", "setslot", slot, "importing", sourceID).Err())
	testkit.Must(c.t, source.Do(ctx, "cluster", "setslot", slot, "migrating", targetID).Err())
	for _, k := range source.ClusterGetKeysInSlot(ctx, slot, 100).Val() {
		testkit.Must(c.t, source.Migrate(ctx, "127.0.0.1", strconv.Itoa(to.Port), k, 0, 5*time.Second).Err())
	}
	testkit.Must(c.t, target.Do(ctx, "cluster", "setslot", slot, "node", targetID).Err())
	testkit.Must(c.t, source.Do(ctx, "cluster", "setslot", slot, "node", targetID).Err())
}
