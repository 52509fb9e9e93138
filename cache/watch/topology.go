package watch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// topologyPause is how often Sentinels or the nodes of a Cluster are asked for the masters
	// while keys are read, besides after a switch; topologyIdle while nobody reads.
	topologyPause = 250 * time.Millisecond
	topologyIdle  = 5 * time.Second
	// topologyWindow is how old their last answer can be while memory is trusted: a demoted master
	// answers pings as before.
	topologyWindow = time.Second
)

// A route is the master of each key, according to one node or Sentinel; nil if unknown.
type route func(key string) (addr string)

// followMasters asks for the masters at intervals, and whenever there is a reason to, and moves the
// keys to those that a majority agrees on.
func (w *Watch) followMasters() {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	v := &voters{w: w, clients: map[string]*redis.Client{}}
	defer v.close()
	v.know(w.dial.seeds())
	if w.dial.failover != nil {
		for _, addr := range w.dial.seeds() {
			tasks.Go(func() { w.followSwitches(addr) })
		}
	}
	for first := true; ; first = false {
		asked := Now()
		agreed, err := v.ask(w.ctx)
		switch {
		case w.ctx.Err() != nil:
			return
		case err != nil:
			w.o.Log.Debug("cannot learn which redis servers are masters", "redis", w.Addr(), "error", err)
		default:
			if w.redirect(agreed) {
				w.o.Log.Info("redis masters changed", "redis", w.masters())
			}
			w.confirmed.Store(int64(asked))
		}
		if first {
			close(w.settled)
		}
		pause := topologyPause
		if w.idle(Now()) {
			pause = topologyIdle
		}
		if !wait(w.ctx, w.poked, pause) {
			return
		}
	}
}

func (w *Watch) masters() []string {
	var addrs []string
	for _, s := range w.all() {
		addrs = append(addrs, s.addr)
	}
	return addrs
}

// followSwitches asks for the masters whenever a Sentinel announces a switch.
func (w *Watch) followSwitches(addr string) {
	sentinel := redis.NewSentinelClient(w.dial.voterOptions(addr))
	stop := context.AfterFunc(w.ctx, func() { _ = sentinel.Close() }) // ends the wait for a message
	defer stop()
	for w.ctx.Err() == nil {
		ps := sentinel.Subscribe(w.ctx, "+switch-master")
		for {
			if _, err := ps.Receive(w.ctx); err != nil {
				break
			}
			w.poke()
		}
		_ = ps.Close()
		if !Sleep(w.ctx, Jitter(topologyPause)) {
			return
		}
	}
}

// voters are the Sentinels of the URL, or the masters of the Cluster as last known. None of them is
// trusted alone.
type voters struct {
	w       *Watch
	addrs   []string
	clients map[string]*redis.Client
}

// know makes those at addrs the voters.
func (v *voters) know(addrs []string) {
	v.addrs = addrs
	for _, addr := range addrs {
		if v.clients[addr] == nil {
			v.clients[addr] = redis.NewClient(v.w.dial.voterOptions(addr))
		}
	}
}

func (v *voters) close() {
	for _, c := range v.clients {
		_ = c.Close()
	}
}

// vote is one voter's answer: the route, and for a Cluster its masters.
type vote struct {
	route   route
	masters []string
	err     error
}

// ask asks all of them, and returns the route that a majority agrees on for every key.
func (v *voters) ask(ctx context.Context) (route, error) {
	ctx, cancel := context.WithTimeout(ctx, topologyWindow/2)
	defer cancel()
	votes := make(chan vote, len(v.addrs))
	for _, addr := range v.addrs {
		go func() {
			if v.w.dial.failover != nil {
				votes <- v.sentinel(ctx, addr)
			} else {
				votes <- v.node(ctx, addr)
			}
		}()
	}
	var routes []route
	var masters [][]string
	var faults []error
	for range v.addrs {
		vote := <-votes
		if vote.err != nil {
			faults = append(faults, vote.err)
			continue
		}
		routes, masters = append(routes, vote.route), append(masters, vote.masters)
	}
	v.w.mu.Lock()
	names := []string{v.w.o.Prefix}
	for name := range v.w.keys {
		names = append(names, name)
	}
	v.w.mu.Unlock()
	for _, name := range names {
		if agreed(routes, len(v.addrs), name) == "" {
			return nil, fmt.Errorf("no majority of %d for the master of %s: %w", len(v.addrs), name, errors.Join(faults...))
		}
	}
	// For a new key there may be no majority: then the first answer, until the next round.
	total := len(v.addrs)
	result := func(name string) string {
		if addr := agreed(routes, total, name); addr != "" {
			return addr
		}
		return routes[0](name)
	}
	if v.w.dial.cluster != nil {
		for i := range routes {
			if routes[i](v.w.o.Prefix) == result(v.w.o.Prefix) {
				v.know(masters[i])
				break
			}
		}
	}
	return result, nil
}

// agreed is the answer of a majority of total.
func agreed(routes []route, total int, name string) string {
	count := map[string]int{}
	for _, r := range routes {
		addr := r(name)
		if count[addr]++; addr != "" && 2*count[addr] > total {
			return addr
		}
	}
	return ""
}

func (v *voters) sentinel(ctx context.Context, addr string) vote {
	pair, err := v.clients[addr].Do(ctx, "sentinel", "get-master-addr-by-name", v.w.dial.failover.MasterName).StringSlice()
	if err == nil && len(pair) != 2 {
		err = fmt.Errorf("sentinel %s: want host and port, got %q", addr, pair)
	}
	if err != nil {
		return vote{err: err}
	}
	master := net.JoinHostPort(pair[0], pair[1])
	return vote{route: func(string) string { return master }}
}

func (v *voters) node(ctx context.Context, addr string) vote {
	slots, err := v.clients[addr].ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS needs Redis 7
	if err != nil {
		return vote{err: err}
	}
	out := vote{}
	seen := map[string]bool{}
	for i := range slots {
		if len(slots[i].Nodes) == 0 {
			continue
		}
		n := &slots[i].Nodes[0]
		if host, port, err := net.SplitHostPort(n.Addr); err == nil && host == "" { // it does not know its own name
			own, _, _ := net.SplitHostPort(addr)
			n.Addr = net.JoinHostPort(own, port)
		}
		if !seen[n.Addr] {
			seen[n.Addr] = true
			out.masters = append(out.masters, n.Addr)
		}
	}
	out.route = func(key string) string {
		slot := slotOf(key)
		for _, s := range slots {
			if s.Start <= slot && slot <= s.End && len(s.Nodes) > 0 {
				return s.Nodes[0].Addr
			}
		}
		return ""
	}
	return out
}

// slotOf is the hash slot of a key: CRC-16 (XMODEM) of it, or of the part in its first braces.
func slotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % 16384)
}
