package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// probeFirst and probeMost bound the pause between two attempts to reach a server.
	probeFirst = 50 * time.Millisecond
	probeMost  = time.Second
	// checkEvery is how often a new connection checks which process answers at the address;
	// checkIdle while nobody reads.
	checkEvery = time.Second
	checkIdle  = 5 * time.Second
)

// A Server is the Redis at one address.
type Server struct {
	w    *Watch
	addr string

	pool atomic.Pointer[redis.Client]
	run  atomic.Pointer[string] // run_id of the process, or "" if unknown
	away atomic.Bool

	// The listening connection: see session.go.
	listensTo atomic.Pointer[string] // run_id of the process at the other end; "" while not connected
	live      atomic.Bool            // connected, and changes are received
	deaf      atomic.Bool            // the server refuses tracking
	period    atomic.Uint64          // numbers the periods of uninterrupted connection, over all servers
	heard     atomic.Int64           // when the last answered ping was sent
	roundTrip atomic.Int64
	far       atomic.Bool

	poked  chan struct{} // capacity 1: ping now
	broken chan struct{} // capacity 1: the server is unreachable
	again  chan struct{} // capacity 1: listen on a new connection

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// end closes all connections.
func (s *Server) end() {
	s.cancel()
	s.tasks.Wait()
	_ = s.pool.Load().Close()
}

func (s *Server) newPool() *redis.Client {
	o := s.w.dial.options(s.addr)
	o.OnConnect = s.identify
	return redis.NewClient(o)
}

// Do calls f with the pool. If the connection fails, the pool is replaced, since all connections
// may be broken, and if again is set f is called once more.
func (s *Server) Do(ctx context.Context, again bool, f func(redis.Cmdable) error) error {
	for {
		pool := s.pool.Load()
		err := f(pool)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if Replied(err) {
			return err
		}
		s.renew(pool)
		if !again {
			return err
		}
		again = false
	}
}

// Replied reports whether err is an error reply of Redis, which is reachable and refuses.
func Replied(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func isRedirection(err error) bool {
	_, moved := redis.IsMovedError(err)
	_, asked := redis.IsAskError(err)
	return moved || asked || redis.IsClusterDownError(err) || redis.IsTryAgainError(err) || redis.IsReadOnlyError(err)
}

// renew replaces the pool, unless that was done already.
func (s *Server) renew(old *redis.Client) {
	fresh := s.newPool()
	if s.pool.CompareAndSwap(old, fresh) {
		_ = old.Close()
		return
	}
	_ = fresh.Close() // has no connections
}

// identify checks, on each new connection, which process answers at the address. If it changed, all
// older connections lead to the wrong one and are closed.
func (s *Server) identify(ctx context.Context, cn *redis.Conn) error {
	text, err := cn.Info(ctx, "server").Result()
	if err != nil {
		if Replied(err) { // not permitted: unknown then
			return nil
		}
		return err
	}
	_, rest, _ := strings.Cut(text, "run_id:")
	run, _, _ := strings.Cut(rest, "\r\n")
	if run == "" {
		return nil
	}
	if old := s.run.Swap(&run); *old != "" && *old != run {
		s.w.o.Log.Warn("another redis process answers at this address", "redis", s.addr)
		s.relisten()
		s.renew(s.pool.Load())
	}
	return nil
}

// check checks at intervals, on a new connection, which process answers at the address: if a name
// or a balancer leads elsewhere, older connections do not.
func (s *Server) check() {
	last := Now()
	for Sleep(s.ctx, Jitter(checkEvery)) {
		now := Now()
		if s.away.Load() || len(s.w.on(s)) == 0 || s.w.idle(now) && now-last < checkIdle {
			continue
		}
		last = now
		_ = s.reach() // if it fails, the next call notices
	}
}

// reach pings on a new connection.
func (s *Server) reach() error {
	o := s.w.dial.options(s.addr)
	o.OnConnect = s.identify
	o.PoolSize = 1
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	return c.Ping(s.ctx).Err()
}

// fail records that the server cannot be read.
func (s *Server) fail(err error) {
	if s.ctx.Err() != nil || s.away.Swap(true) {
		return
	}
	s.w.o.Log.Warn("redis unreachable; serving from memory and the CMS, uncoordinated", "redis", s.addr, "error", err)
	signal(s.broken)
}

// probe waits until the server cannot be read, and then pings until it answers again, with growing
// pauses.
func (s *Server) probe() {
	pause, back := probeFirst, time.Now()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.broken:
		}
		// It may refuse what a ping does not need: while it is back only briefly, pauses grow.
		if time.Since(back) > 10*probeMost {
			pause = probeFirst
		}
		since := time.Now()
		for {
			if !Sleep(s.ctx, Jitter(pause)) {
				return
			}
			pause = min(2*pause, probeMost)
			if s.reach() == nil {
				break
			}
		}
		back = time.Now()
		s.renew(s.pool.Load())
		s.away.Store(false)
		s.w.o.Log.Info("redis is back", "redis", s.addr, "after", time.Since(since).Round(time.Millisecond))
		s.notify()
	}
}

// notify makes the keys of this server be looked at again.
func (s *Server) notify() {
	for _, k := range s.w.on(s) {
		k.notify(false)
	}
}

func (s *Server) poke() { signal(s.poked) }

// Jitter spreads d by a quarter to either side.
func Jitter(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2+1)
}

// heardOf reports whether every change acknowledged before now minus the trust has been received.
func (s *Server) heardOf(now time.Duration) bool {
	return int64(now)-s.heard.Load() <= int64(s.w.trust) && int64(now)-s.w.confirmed.Load() <= int64(topologyWindow)
}

// relisten ends the session for a new one.
func (s *Server) relisten() { signal(s.again) }
