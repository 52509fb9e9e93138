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
	// checkEvery is how often it is asked, on a new connection, which process answers at the address;
	// checkIdle while nobody reads.
	checkEvery = time.Second
	checkIdle  = 5 * time.Second
)

// A Server is the Redis at one address.
type Server struct {
	w    *Watch
	addr string

	pool atomic.Pointer[redis.Client]
	run  atomic.Pointer[string] // run_id of the process that answers; "" where it is not known
	away atomic.Bool

	// The listening connection: see session.go.
	live      atomic.Bool   // it is there, and changes are received
	period    atomic.Uint64 // numbers the periods in which it was there without a gap, over all servers
	heard     atomic.Int64  // when the last answered ping was sent
	roundTrip atomic.Int64
	far       atomic.Bool

	poked  chan struct{} // capacity 1: ping now
	broken chan struct{} // capacity 1: the server is away
	again  chan struct{} // capacity 1: listen on a new connection

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

func newServer(w *Watch, addr string) *Server {
	s := &Server{w: w, addr: addr, poked: make(chan struct{}, 1), broken: make(chan struct{}, 1), again: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(w.ctx)
	unknown := ""
	s.run.Store(&unknown)
	s.heard.Store(never)
	s.pool.Store(s.newPool())
	s.tasks.Go(s.probe)
	s.tasks.Go(s.listen)
	s.tasks.Go(s.check)
	return s
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

// Do calls f with the pool. If the connection fails, the pool is made anew, since what has become
// of one connection may have become of all; and where again is set f is called once more.
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

// Replied reports whether err is an answer of Redis: it is there, and refuses.
func Replied(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func isRedirection(err error) bool {
	_, moved := redis.IsMovedError(err)
	_, asked := redis.IsAskError(err)
	return moved || asked || redis.IsClusterDownError(err) || redis.IsTryAgainError(err) || redis.IsReadOnlyError(err)
}

// renew replaces the pool, unless somebody has done so already.
func (s *Server) renew(old *redis.Client) {
	fresh := s.newPool()
	if s.pool.CompareAndSwap(old, fresh) {
		_ = old.Close()
		return
	}
	_ = fresh.Close() // has no connections
}

// identify learns, on each new connection, which process answers at the address. If it is another
// one than before, all older connections lead to the wrong one and are given up.
func (s *Server) identify(ctx context.Context, cn *redis.Conn) error {
	text, err := cn.Info(ctx, "server").Result()
	if err != nil {
		if Replied(err) { // not allowed: it is not known, then
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

// check asks at intervals, on a new connection, which process answers at the address: where a name
// or a balancer leads elsewhere, connections made before stay where they are.
func (s *Server) check() {
	for {
		pause := checkEvery
		if s.w.idle(Now()) {
			pause = checkIdle
		}
		if !Sleep(s.ctx, Jitter(pause)) {
			return
		}
		if len(s.w.on(s)) > 0 && !s.away.Load() {
			_ = s.reach() // if it fails, whoever needs the server finds out
		}
	}
}

// reach asks for a sign of life on a new connection.
func (s *Server) reach() error {
	o := s.w.dial.options(s.addr)
	o.OnConnect = s.identify
	o.PoolSize = 1
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	return c.Ping(s.ctx).Err()
}

// fail notes that the server cannot be read.
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
		// It may refuse what a ping does not need: while it is back for short times only, pauses grow.
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

// notify has everybody look again at the keys of this server.
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
