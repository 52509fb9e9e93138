package cache

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// topologyPause is how often Sentinels or a Cluster are asked which masters there are, beside being told.
	topologyPause = 250 * time.Millisecond
	// topologyWindow is how old their last answer may be while memory is trusted: a demoted master answers heartbeats
	// as before, so that hearing from it is not enough.
	topologyWindow = time.Second
)

// watch keeps one watcher for each master until the store closes.
func (s *Store) watch(c *connector) {
	if c.single != nil {
		s.confirmed.Store(forever)
		w := s.newWatcher(c.watcherOptions(c.single.Addr, s.prefix))
		s.watchers.Store(&[]*watcher{w})
		s.tasks.Go(func() { w.run(s.ctx) })
		return
	}
	s.confirmed.Store(never)
	s.tasks.Go(func() { s.supervise(c) })
}

// forever is the time of a confirmation that does not get old.
const forever = 1 << 62

// supervise asks for the masters, at intervals and whenever a Sentinel tells of a failover, and starts and ends watchers.
func (s *Store) supervise(c *connector) {
	told := make(chan struct{}, 1)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	masters := s.clusterMasters
	if c.failover != nil {
		sentinels := make([]*redis.SentinelClient, 0, len(c.failover.SentinelAddrs))
		for _, addr := range c.failover.SentinelAddrs {
			sentinel := redis.NewSentinelClient(c.sentinelOptions(addr))
			sentinels = append(sentinels, sentinel)
			tasks.Go(func() { s.heedSwitches(sentinel, told) })
		}
		defer func() {
			for _, sentinel := range sentinels {
				_ = sentinel.Close()
			}
		}()
		masters = func(ctx context.Context) ([]string, error) {
			return sentinelMaster(ctx, sentinels, c.failover.MasterName)
		}
	}

	running := map[string]*supervised{}
	defer func() {
		for _, w := range running {
			w.end()
		}
	}()
	for s.ctx.Err() == nil {
		asked := s.now()
		addrs, err := masters(s.ctx)
		if err == nil {
			s.reconcile(c, running, addrs)
			s.confirmed.Store(int64(asked))
		} else if s.ctx.Err() == nil {
			s.log.Debug("cannot learn which redis servers are masters", "redis", s.addr, "error", err)
		}
		timer := time.NewTimer(topologyPause)
		select {
		case <-s.ctx.Done():
		case <-told:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// supervised is a watcher that can be ended on its own.
type supervised struct {
	*watcher
	end func()
}

// reconcile makes the watchers those of the masters. The list is published before a new one is heard of and after the
// old ones are gone from it, so that memory is trusted only while every present master is heard.
func (s *Store) reconcile(c *connector, running map[string]*supervised, addrs []string) {
	slices.Sort(addrs)
	changed := false
	var gone []*supervised
	for addr, w := range running {
		if !slices.Contains(addrs, addr) {
			changed = true
			delete(running, addr)
			w.last.Store(never)
			gone = append(gone, w)
		}
	}
	var list []*watcher
	for _, addr := range addrs {
		w := running[addr]
		if w == nil {
			changed = true
			ctx, cancel := context.WithCancel(s.ctx)
			done := make(chan struct{})
			w = &supervised{watcher: s.newWatcher(c.watcherOptions(addr, s.prefix))}
			w.end = func() { cancel(); <-done }
			go func() { defer close(done); w.run(ctx) }()
			running[addr] = w
		}
		list = append(list, w.watcher)
	}
	if changed {
		s.log.Info("redis masters", "redis", addrs)
		// What was admitted while another server was master is checked against the new one: nothing is trusted until the
		// list and the epoch are both new, and confirmed again.
		s.confirmed.Store(never)
		s.watchers.Store(&list)
		s.epoch.Add(1)
		s.wakeAll()
	}
	for _, w := range gone {
		w.end()
	}
}

// heedSwitches passes on what a Sentinel says of failovers.
func (s *Store) heedSwitches(sentinel *redis.SentinelClient, told chan<- struct{}) {
	for s.ctx.Err() == nil {
		ps := sentinel.Subscribe(s.ctx, "+switch-master")
		for {
			if _, err := ps.Receive(s.ctx); err != nil {
				break
			}
			select {
			case told <- struct{}{}:
			default:
			}
		}
		_ = ps.Close()
		if !sleep(s.ctx, jitter(topologyPause)) {
			return
		}
	}
}

// sentinelMaster asks all Sentinels and believes the majority; where they are split it names no master, and memory is
// not trusted until they agree.
func sentinelMaster(ctx context.Context, sentinels []*redis.SentinelClient, name string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, topologyWindow/2)
	defer cancel()
	type vote struct {
		addr string
		err  error
	}
	votes := make(chan vote, len(sentinels))
	for _, sentinel := range sentinels {
		go func() {
			pair, err := sentinel.GetMasterAddrByName(ctx, name).Result()
			if err == nil && len(pair) != 2 {
				err = fmt.Errorf("sentinel: want host and port of %q, got %q", name, pair)
			}
			if err != nil {
				votes <- vote{err: err}
				return
			}
			votes <- vote{addr: net.JoinHostPort(pair[0], pair[1])}
		}()
	}
	count := map[string]int{}
	var faults []error
	for range sentinels {
		v := <-votes
		if v.err != nil {
			faults = append(faults, v.err)
			continue
		}
		count[v.addr]++
	}
	best, most, answered := "", 0, len(sentinels)-len(faults)
	for addr, n := range count {
		if n > most {
			best, most = addr, n
		}
	}
	switch {
	case answered == 0:
		return nil, fmt.Errorf("sentinel: %w", errors.Join(faults...))
	case 2*most <= answered:
		return nil, fmt.Errorf("sentinel: no agreement on the master of %q: %v", name, count)
	}
	return []string{best}, nil
}

// clusterMasters lists the Cluster's masters as it has them now.
func (s *Store) clusterMasters(ctx context.Context) ([]string, error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return nil, fmt.Errorf("cluster: the client is a %T", s.client)
	}
	ctx, cancel := context.WithTimeout(ctx, topologyWindow/2)
	defer cancel()
	cluster.ReloadState(ctx)
	var mu sync.Mutex
	var addrs []string
	err := cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		addrs = append(addrs, master.Options().Addr)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	if len(addrs) == 0 {
		return nil, errors.New("cluster: no masters")
	}
	return addrs, nil
}

func (c *connector) sentinelOptions(addr string) *redis.Options {
	f := c.failover
	return &redis.Options{
		Addr: addr, Username: f.SentinelUsername, Password: f.SentinelPassword, TLSConfig: f.TLSConfig,
		DialTimeout: f.DialTimeout, ReadTimeout: f.ReadTimeout, WriteTimeout: f.WriteTimeout, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
	}
}

// watcherOptions are for a connection of its own to one server: RESP3, on which pushes arrive, and the tracking
// switched on as part of connecting, so that there is no moment at which it is connected and deaf.
func (c *connector) watcherOptions(addr, prefix string) *redis.Options {
	var o redis.Options
	switch {
	case c.failover != nil:
		o = redis.Options{Username: c.failover.Username, Password: c.failover.Password, TLSConfig: serverName(c.failover.TLSConfig, addr), DialTimeout: c.failover.DialTimeout}
	case c.cluster != nil:
		o = redis.Options{Username: c.cluster.Username, Password: c.cluster.Password, TLSConfig: serverName(c.cluster.TLSConfig, addr), DialTimeout: c.cluster.DialTimeout}
	default:
		o = *c.single
	}
	if o.Addr == "" {
		o.Addr = addr
	}
	o.Protocol = 3
	o.PoolSize, o.MinIdleConns, o.MaxRetries, o.DialerRetries = 1, 0, -1, 1
	o.ReadTimeout, o.WriteTimeout = watchdogTimeout, watchdogTimeout
	o.ContextTimeoutEnabled = true
	o.MaintNotificationsConfig = quiet()
	o.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		// Where HELLO is refused, go-redis goes on in RESP2, in which tracking can be switched on, heartbeats are
		// answered, and no push ever comes.
		if err := cn.Hello(ctx, o.Protocol, "", "", "").Err(); err != nil {
			return err
		}
		return cn.Do(ctx, "client", "tracking", "on", "bcast", "prefix", prefix).Err()
	}
	return &o
}

// serverName makes TLS check the certificate of the server dialled, not of the one that the URL names.
func serverName(c *tls.Config, addr string) *tls.Config {
	if c == nil {
		return nil
	}
	c = c.Clone()
	if host, _, err := net.SplitHostPort(addr); err == nil {
		c.ServerName = host
	}
	return c
}
