package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// followMasters asks for the masters at intervals, and whenever there is a reason to, and moves the
// keys to those that a majority agrees on.
func (w *Watch) followMasters() {
	v := &voters{w: w, spare: w.dial.seeds, clients: map[string]*redis.Client{}}
	defer v.know(nil)
	v.know(w.dial.seeds)
	for first := true; ; first = false {
		asked := Now()
		agreed, err := v.ask(w.ctx, true)
		switch {
		case w.ctx.Err() != nil:
			return
		case err != nil:
			w.o.Log.Debug("cannot learn which redis servers are masters", "redis", w.Addr(), "error", err)
		default:
			w.redirect(agreed)
			w.confirmed.Store(int64(asked))
		}
		if first {
			close(w.settled)
		}
		if !Wait(w.ctx, w.poked, w.pace(topologyPause, topologyIdle)) {
			return
		}
	}
}

// voters are the Sentinels of the URL, or the masters of the Cluster as last known. None of them is
// trusted alone. When none of a Cluster answers, those of the URL are asked in turn with them.
type voters struct {
	w       *Watch
	addrs   []string
	spare   []string // asked next when none of addrs answers
	clients map[string]*redis.Client
}

// know makes those at addrs the voters, and leaves no connection to others.
func (v *voters) know(addrs []string) {
	v.addrs = addrs
	for _, addr := range addrs {
		if v.clients[addr] == nil {
			v.clients[addr] = redis.NewClient(v.w.dial.options(v.w.dial.voter, addr))
		}
	}
	for addr, c := range v.clients {
		if !slices.Contains(addrs, addr) {
			_ = c.Close()
			delete(v.clients, addr)
		}
	}
}

// A vote is one voter's answer, nil if there was none: the master of each range of slots. A Sentinel
// names one for all.
type vote []slots

type slots struct {
	start, end int
	addr       string
}

// master is the master of a key, "" if unknown.
func (v vote) master(key string) (addr string) {
	slot := slotOf(key)
	for _, s := range v {
		if s.start <= slot && slot <= s.end {
			return s.addr
		}
	}
	return ""
}

// ask asks all of them, and returns the master that a majority agrees on for every key. If it names
// other voters, these are asked instead, once if again is set.
func (v *voters) ask(ctx context.Context, again bool) (func(key string) (addr string), error) {
	limited, cancel := context.WithTimeout(ctx, topologyWindow/2) // one of them may hang
	defer cancel()
	votes, faults := make([]vote, len(v.addrs)), make([]error, len(v.addrs))
	var asking sync.WaitGroup
	for i, addr := range v.addrs {
		asking.Go(func() { votes[i], faults[i] = v.poll(limited, addr) })
	}
	asking.Wait()
	if !slices.ContainsFunc(votes, func(one vote) bool { return one != nil }) {
		silent := v.addrs
		v.know(v.spare)
		v.spare = silent
	}
	v.w.mu.Lock()
	names := slices.AppendSeq([]string{v.w.o.Prefix}, maps.Keys(v.w.keys))
	v.w.mu.Unlock()
	for _, name := range names {
		if agreed(votes, name) == nil {
			return nil, fmt.Errorf("no majority of %d for the master of %s: %w", len(votes), name, errors.Join(faults...))
		}
	}
	one := agreed(votes, v.w.o.Prefix)
	if v.w.dial.master == "" {
		var masters []string
		for _, s := range one {
			masters = append(masters, s.addr)
		}
		slices.Sort(masters)
		if masters = slices.Compact(masters); !slices.Equal(masters, v.addrs) {
			v.spare = v.w.dial.seeds
			v.know(masters)
			if again {
				return v.ask(ctx, false) // it is for them to agree
			}
		}
	}
	// For a new key there may be no majority: then what one says, until the next round.
	return func(name string) string { return cmp.Or(agreed(votes, name).master(name), one.master(name)) }, nil
}

// agreed is a vote of the majority, nil if there is none.
func agreed(votes []vote, name string) vote {
	count := map[string]int{}
	for _, v := range votes {
		addr := v.master(name)
		if count[addr]++; addr != "" && 2*count[addr] > len(votes) {
			return v
		}
	}
	return nil
}

// poll asks a Sentinel, or a node of a Cluster.
func (v *voters) poll(ctx context.Context, addr string) (vote, error) {
	if v.w.dial.master != "" {
		pair, err := v.clients[addr].Do(ctx, "sentinel", "get-master-addr-by-name", v.w.dial.master).StringSlice()
		if err == nil && len(pair) != 2 {
			err = fmt.Errorf("sentinel %s: want host and port, got %q", addr, pair)
		}
		if err != nil {
			return nil, err
		}
		return vote{{0, slotCount - 1, net.JoinHostPort(pair[0], pair[1])}}, nil
	}
	ranges, err := v.clients[addr].Do(ctx, "cluster", "slots").Slice() // CLUSTER SHARDS needs Redis 7
	if err != nil {
		return nil, err
	}
	own, _, _ := net.SplitHostPort(addr)
	return parseSlots(ranges, own), nil
}

// parseSlots reads the reply of CLUSTER SLOTS, a list of [start, end, [host, port, ...],
// replica...]. A node that does not know its own name, or is configured not to tell it, has no
// host: that is the one that was asked. (go-redis's own reading fails then.)
func parseSlots(ranges []any, own string) (v vote) {
	for _, r := range ranges {
		r, _ := r.([]any)
		if len(r) < 3 {
			continue // nobody serves these slots
		}
		start, _ := r[0].(int64)
		end, _ := r[1].(int64)
		master, _ := r[2].([]any)
		if len(master) < 2 {
			continue
		}
		host, _ := master[0].(string)
		v = append(v, slots{int(start), int(end), net.JoinHostPort(cmp.Or(host, own), fmt.Sprint(master[1]))})
	}
	return v
}

const slotCount = 16384

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
	return int(crc % slotCount)
}

// serverAt returns the server at addr, and starts it if there is none; nil for no address. It is
// called with mu held.
func (w *Watch) serverAt(addr string) *Server {
	if s := w.servers[addr]; s != nil || addr == "" {
		return s
	}
	s := &Server{w: w, addr: addr, poked: make(chan struct{}, 1), broken: make(chan struct{}, 1), again: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(w.ctx)
	s.answered.Store(never)
	s.pool.Store(s.newPool())
	s.tasks.Go(s.probe)
	s.tasks.Go(s.listen)
	w.servers[addr] = s
	return s
}

// redirect moves each key to the server that route names, and ends servers without keys.
func (w *Watch) redirect(route func(key string) string) {
	w.mu.Lock()
	w.route = route
	used := map[string]*Server{}
	for name := range w.others {
		if s := w.serverAt(route(name)); s != nil {
			used[s.addr] = s
		}
	}
	moved := map[*Key]*Server{}
	for name, k := range w.keys {
		s := w.serverAt(route(name))
		if s == nil { // a new key, of a slot that nobody serves
			continue
		}
		if used[s.addr] = s; k.server.Load() != s {
			moved[k] = s
		}
	}
	before := w.servers
	w.servers = maps.Clone(used)
	w.mu.Unlock()
	for k, s := range moved {
		k.lose()
		k.move(s)
	}
	if len(moved) > 0 {
		for _, s := range used {
			Signal(s.again)
		}
		w.o.Log.Info("redis masters changed", "redis", slices.Sorted(maps.Keys(used)))
	}
	for k := range moved {
		k.notify(Back)
	}
	for addr, s := range before {
		if used[addr] == nil {
			w.tasks.Go(s.end) // which may hang
		}
	}
}
