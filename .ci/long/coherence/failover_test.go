package coherence

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cache/poll"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

// switched has Sentinels promote a replica while the master is away.
func switched(goes, comes func(*redistest.Server)) func(t *testing.T) (string, func() *redistest.Server) {
	return func(t *testing.T) (string, func() *redistest.Server) {
		group := redistest.StartSentinels(t)
		promoted := group.Sentinels[0].Client().Subscribe(t.Context(), "+switch-master")
		_, err := promoted.Receive(t.Context())
		must(t, err)
		return group.URL(), func() *redistest.Server {
			goes(group.Master)
			_, err := promoted.ReceiveMessage(t.Context())
			must(t, errors.Join(err, promoted.Close()))
			comes(group.Master)
			return group.Replica
		}
	}
}

// changes of masters: each is over when happen returns the new one.
var changes = map[string]func(t *testing.T) (url string, happen func() *redistest.Server){
	"Sentinel: the master dies, from `+switch-master`": switched((*redistest.Server).Kill, func(*redistest.Server) {}),
	// Its connections stay open, and it believes that it is the master, for a while.
	"Sentinel: the master hangs, from its return after `+switch-master`": switched((*redistest.Server).Pause, (*redistest.Server).Resume),
	"Cluster: a master dies, from its replica's promotion": func(t *testing.T) (string, func() *redistest.Server) {
		c := redistest.StartCluster(t, time.Second)
		return c.URL(), func() *redistest.Server {
			owner, _ := c.Owner(Prefix + "banners")
			successor := c.Nodes[3+slices.Index(c.Nodes, owner)]
			owner.Kill()
			eventually(t, "its replica is promoted", func() bool {
				return strings.Contains(successor.Client().Info(t.Context(), "replication").Val(), "role:master")
			})
			return successor
		}
	},
	"Cluster: the slot has moved": func(t *testing.T) (string, func() *redistest.Server) {
		c := redistest.StartCluster(t, 15*time.Second)
		return c.URL(), func() *redistest.Server {
			owner, _ := c.Owner(Prefix + "banners")
			other := c.Nodes[(slices.Index(c.Nodes, owner)+1)%3]
			c.Move(Prefix+"banners", other)
			return other
		}
	},
	"Cluster: a node is back, empty, at another port": func(t *testing.T) (string, func() *redistest.Server) {
		c := redistest.StartCluster(t, 15*time.Second)
		return c.URL(), func() *redistest.Server {
			owner, _ := c.Owner(Prefix + "banners")
			owner.Relocate()
			eventually(t, "the others know it", func() bool {
				for _, n := range c.Nodes {
					if !strings.Contains(n.Client().ClusterNodes(t.Context()).Val(), owner.Addr) {
						return false
					}
				}
				return true
			})
			return owner
		}
	},
}

// failoverBound is how long after a change of masters a purge at the new one may be overlooked.
const failoverBound = 2 * time.Second

// TestAFailoverIsFollowed has masters change while two replicas are read, and measures how long after
// that the slower one gives its first answer that Redis has stored, of what was fetched after a purge
// there. No answer is an error, nor older than that purge once the bound is over. The table in
// docs/performance.md is its log.
func TestAFailoverIsFollowed(t *testing.T) {
	for name, begin := range changes {
		t.Run(name, func(t *testing.T) {
			var took Delays
			for range count(t, 3) {
				url, happen := begin(t)
				origins := NewOrigins(0, "banners")
				nodes := StartFleet(t, url, 2, origins, Setup{Options: Long})
				ctx, stop := context.WithCancel(t.Context())
				stored := make(chan time.Time, len(nodes))
				var readers sync.WaitGroup
				var late atomic.Int64 // when the bound is over, Unix nanoseconds
				late.Store(math.MaxInt64)
				for _, n := range nodes {
					readers.Go(func() {
						for ctx.Err() == nil {
							asked := time.Now().UnixNano()
							version, status, err := n.Get(ctx, "banners")
							if err != nil && ctx.Err() == nil {
								t.Error(err)
							}
							if err == nil && version == 1 && asked > late.Load() && status.Detail != cache.DetailRedisAway {
								t.Errorf("the purge is overlooked: %+v", status)
							}
							if version > 1 && (status.Stored || status.Detail == cache.DetailMemory || status.Detail == cache.DetailRedis) {
								stored <- time.Now()
								return
							}
							poll.Sleep(ctx, time.Millisecond)
						}
					})
				}
				poll.Sleep(ctx, 200*time.Millisecond)
				master := happen()
				began := time.Now()
				origins["banners"].Version.Store(2)
				must(t, testkit.Retry(func() error { return master.Client().Del(ctx, Prefix+"banners").Err() }))
				late.Store(time.Now().Add(failoverBound).UnixNano())
				last := began
				for range nodes {
					last = testkit.Receive(t, stored)
				}
				stop()
				readers.Wait()
				took = append(took, last.Sub(began))
			}
			t.Logf("| %s | %s | %s |", name, seconds(took.Quantile(0.5)), seconds(took.Quantile(1)))
		})
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }
