package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// groupTimeout is how long several servers may take to form a group.
const groupTimeout = 30 * time.Second

// MasterName is the name of the master of [StartSentinels].
const MasterName = "vitrine-test"

// Sentinels is a master with a replica, and three Sentinels that watch them.
type Sentinels struct {
	Master, Replica *Server
	Sentinels       []*Server
}

// StartSentinels starts the five processes and waits until the Sentinels know each other and the
// replica. The Sentinels consider the master down after half a second.
func StartSentinels(t testing.TB) *Sentinels {
	t.Helper()
	g := &Sentinels{Master: Start(t, "--repl-diskless-sync-delay", "0")}
	g.Replica = Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(g.Master.Port))
	for range 3 {
		s := &Server{t: t, dir: t.TempDir(), Port: FreePort(t)}
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port))
		conf := filepath.Join(s.dir, "sentinel.conf")
		text := fmt.Sprintf("port %[1]d\nbind 127.0.0.1\ndir %[2]s\nlogfile %[2]s/redis.log\nsentinel monitor %[3]s 127.0.0.1 %[4]d 2\n"+
			"sentinel down-after-milliseconds %[3]s 500\nsentinel failover-timeout %[3]s 3000\n", s.Port, s.dir, MasterName, g.Master.Port)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.whole = []string{conf, "--sentinel"}
		s.run()
		t.Cleanup(s.Kill)
		g.Sentinels = append(g.Sentinels, s)
	}
	wait(t, "the Sentinels to know each other and the replica", func() bool {
		for _, s := range g.Sentinels {
			m := s.Client().Do(t.Context(), "sentinel", "master", MasterName)
			text := fmt.Sprint(m.Val())
			if !strings.Contains(text, "num-other-sentinels:2") || !strings.Contains(text, "num-slaves:1") {
				return false
			}
		}
		return true
	})
	return g
}

// URL is the group as a setting.
func (g *Sentinels) URL() string {
	return fmt.Sprintf("redis://%s?master_name=%s&addr=%s&addr=%s", g.Sentinels[0].Addr, MasterName, g.Sentinels[1].Addr, g.Sentinels[2].Addr)
}

// A Cluster is six nodes, three of them masters with a third of the slots each.
type Cluster struct {
	Nodes []*Server // the first three are the first masters
	t     testing.TB
}

// StartCluster starts the six processes and waits until they form a Cluster.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for range 6 {
		c.Nodes = append(c.Nodes, Start(t, "--repl-diskless-sync-delay", "0", "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port", strconv.Itoa(FreePort(t))))
	}
	ctx := t.Context()
	for i, n := range c.Nodes[:3] {
		from, to := i*5461, (i+1)*5461-1
		if i == 2 {
			to = 16383
		}
		check(t, n.Client().Do(ctx, "cluster", "addslotsrange", from, to).Err())
	}
	first := c.Nodes[0]
	for _, n := range c.Nodes[1:] {
		check(t, n.Client().Do(ctx, "cluster", "meet", "127.0.0.1", first.Port, busPort(t, first)).Err())
	}
	wait(t, "the nodes to meet", func() bool {
		for _, n := range c.Nodes {
			if strings.Count(n.Client().ClusterNodes(ctx).Val(), "connected") < 6 {
				return false
			}
		}
		return true
	})
	for i, n := range c.Nodes[3:] {
		id := c.Nodes[i].Client().ClusterMyID(ctx).Val()
		wait(t, "a node to become a replica", func() bool { return n.Client().ClusterReplicate(ctx, id).Err() == nil })
	}
	for _, n := range c.Nodes[3:] {
		// A replica that has never had its master's data cannot take over.
		wait(t, "a replica to have its data", func() bool {
			return strings.Contains(n.Client().Info(ctx, "replication").Val(), "master_link_status:up")
		})
	}
	wait(t, "the Cluster to be complete", func() bool {
		for _, n := range c.Nodes {
			if !strings.Contains(n.Client().ClusterInfo(ctx).Val(), "cluster_state:ok") {
				return false
			}
		}
		return strings.Count(first.Client().ClusterNodes(ctx).Val(), "slave") == 3
	})
	return c
}

func busPort(t testing.TB, s *Server) string {
	t.Helper()
	v, err := s.Client().ConfigGet(t.Context(), "cluster-port").Result()
	check(t, err)
	return v["cluster-port"]
}

// URL is the Cluster as a setting.
func (c *Cluster) URL() string {
	return fmt.Sprintf("redis://%s?addr=%s&addr=%s", c.Nodes[0].Addr, c.Nodes[1].Addr, c.Nodes[2].Addr)
}

// Client is a client of the whole Cluster, closed with the test.
func (c *Cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:       []string{c.Nodes[0].Addr, c.Nodes[1].Addr, c.Nodes[2].Addr},
		DialTimeout: time.Second, ReadTimeout: 300 * time.Millisecond, WriteTimeout: 300 * time.Millisecond, MaxRetries: -1,
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
	check(c.t, target.Do(ctx, "cluster", "setslot", slot, "importing", sourceID).Err())
	check(c.t, source.Do(ctx, "cluster", "setslot", slot, "migrating", targetID).Err())
	for _, k := range source.ClusterGetKeysInSlot(ctx, slot, 100).Val() {
		check(c.t, source.Migrate(ctx, "127.0.0.1", strconv.Itoa(to.Port), k, 0, 5*time.Second).Err())
	}
	check(c.t, target.Do(ctx, "cluster", "setslot", slot, "node", targetID).Err())
	check(c.t, source.Do(ctx, "cluster", "setslot", slot, "node", targetID).Err())
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(groupTimeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited %v for %s", groupTimeout, what)
		case <-tick.C:
		}
	}
}
