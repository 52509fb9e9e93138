package watch

import (
	"context"
	"errors"
	"strings"
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

// end closes all connections.
func (s *Server) end() {
	s.cancel()
	s.tasks.Wait()
	_ = s.pool.Load().Close()
}

func (s *Server) newPool() *redis.Client {
	o := s.w.dial.options(s.w.dial.server, s.addr)
	o.OnConnect = s.identify
	return redis.NewClient(o)
}

// Dedicated are the options of a client with one connection, which pushes can come on.
func (s *Server) Dedicated() *redis.Options {
	o := s.w.dial.options(s.w.dial.server, s.addr)
	o.Protocol, o.PoolSize, o.MinIdleConns = 3, 1, 0
	return o
}

// Do calls f with the pool. If the connection fails, the pool is replaced, since all connections
// may be broken, and if again is set f is called once more.
func (s *Server) Do(ctx context.Context, again bool, f func(redis.Cmdable) error) error {
	pool := s.pool.Load()
	err := f(pool)
	if err == nil || ctx.Err() != nil || Replied(err) {
		return err
	}
	s.renew(pool)
	if again {
		return s.Do(ctx, false, f)
	}
	return err
}

// Replied reports whether err is an error reply of Redis, which is reachable and refuses. Some say
// that the key is elsewhere, or that Redis is not there yet: then it was not reached.
func Replied(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	return !isElsewhere(err) && !redis.IsLoadingError(err) && !redis.IsMasterDownError(err)
}

// isElsewhere reports whether a reply says that another server has the key, or none.
func isElsewhere(err error) bool {
	_, moved := redis.IsMovedError(err)
	_, asked := redis.IsAskError(err)
	return moved || asked || redis.IsTryAgainError(err) || redis.IsClusterDownError(err)
}

// renew replaces the pool, unless that was done already. A call in flight can ask for it after the
// server was given up: then nobody else would close the new one.
func (s *Server) renew(old *redis.Client) {
	fresh := s.newPool()
	if s.pool.CompareAndSwap(old, fresh) {
		_ = old.Close()
		if s.ctx.Err() == nil {
			return
		}
	}
	_ = fresh.Close() // has no connections
}

// identify checks, on each new connection, which process answers at the address. If it changed, all
// older connections lead to the wrong one and are closed; a session with the new one goes on.
func (s *Server) identify(ctx context.Context, cn *redis.Conn) error {
	run, err := process(ctx, cn)
	if s.exchanged(run) {
		Signal(s.poked)
	}
	return err
}

// process is the run_id of the process at the other end, or "" if it does not say.
func process(ctx context.Context, cn *redis.Conn) (run string, err error) {
	text, err := cn.Info(ctx, "server").Result()
	if err != nil && !Replied(err) { // else it is not permitted
		return "", err
	}
	_, rest, _ := strings.Cut(text, "run_id:")
	run, _, _ = strings.Cut(rest, "\r\n")
	return run, nil
}

// exchanged notes which process answers on a new connection, and reports whether it is another.
func (s *Server) exchanged(run string) bool {
	if run == "" {
		return false
	}
	if old := s.run.Swap(&run); old != nil && *old != run {
		s.renew(s.pool.Load())
		s.w.o.Log.Warn("another redis process answers at this address", "redis", s.addr)
		return true
	}
	return false
}

// reach asks for the role on a new connection. A master that was demoted, and is cut from its
// successor, answers the pings of a session as before, and announces nothing of what happens there.
func (s *Server) reach() error {
	o := s.Dedicated() // a pool can begin with more than one connection
	o.OnConnect = s.identify
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	text, err := c.Info(s.ctx, "replication").Result()
	if Replied(err) { // not permitted
		return c.Ping(s.ctx).Err()
	}
	if strings.Contains(text, "role:slave") && s.listening() {
		s.w.o.Log.Warn("redis is not a master any more; checking redis on every request", "redis", s.addr)
		Signal(s.again)
	}
	return err
}

// fail records that the server cannot be read, as a call has shown that began then. If a session
// has begun since, older connections broke, and the call says nothing of the new ones.
func (s *Server) fail(began time.Duration, err error) {
	if s.ctx.Err() != nil || s.listening() && s.begun.Load() > int64(began) || !s.away.CompareAndSwap(0, int64(Now())) {
		return
	}
	s.w.o.Log.Warn("redis unreachable; serving from memory and the CMS, uncoordinated", "redis", s.addr, "error", err)
	s.notify(Lost)
	Signal(s.broken)
}

// probe checks at intervals, on a new connection, which process answers at the address: if a name
// or a balancer leads elsewhere, older connections do not. While the server cannot be read, it does
// so until there is an answer, with growing pauses.
func (s *Server) probe() {
	pause, last := probeFirst, Now()
	for Wait(s.ctx, s.broken, Jitter(checkEvery)) {
		since := Now()
		if s.away.Load() == 0 {
			if len(s.w.on(s)) > 0 && (!s.w.idle(since) || since-last >= checkIdle) {
				last = since
				_ = s.reach() // if it fails, the next call notices
			}
			// It may refuse what a ping does not need: while it is back only briefly, pauses grow.
			pause = max(pause/2, probeFirst)
			continue
		}
		for s.away.Load() != 0 { // until it is reached here, or listened to again
			if !Sleep(s.ctx, Jitter(pause)) {
				return
			}
			pause = min(2*pause, probeMost)
			if s.reach() == nil {
				s.back()
			}
		}
	}
}

// back records that the server answers on a new connection.
func (s *Server) back() {
	old := s.pool.Load()
	if since := s.away.Swap(0); since != 0 {
		s.renew(old)
		s.w.o.Log.Info("redis is back", "redis", s.addr, "after", (Now() - time.Duration(since)).Round(time.Millisecond))
		s.notify(Back)
	}
}

// notify tells the readers of this server's keys.
func (s *Server) notify(e Event) {
	for _, k := range s.w.on(s) {
		if e == Lost {
			k.lose()
		} else {
			k.notify(e)
		}
	}
}

// redirectPause is the pause before asking again after a reply that another server has the key.
const redirectPause = 10 * time.Millisecond

// call calls f with the key's server, and returns that.
func (k *Key) call(ctx context.Context, again bool, f func(redis.Cmdable) error) (s *Server, err error) {
	until := Now() + k.w.o.Patience
	for {
		if s, err = k.server.Load(), ErrNoServer; s != nil {
			err = s.Do(ctx, again, f)
		}
		moved := err != nil && k.w.dial.voter != nil && (s == nil || s != k.server.Load() || isElsewhere(err) || redis.IsReadOnlyError(err))
		if !moved || Now() > until {
			return s, err
		}
		Signal(k.w.poked) // another server has the key, or is about to
		if !Sleep(ctx, redirectPause) {
			return s, err
		}
	}
}

// Do calls f, which reads, with the key's server, and once more if the connection fails. A server
// that cannot be read is left alone by everybody until it is reached again.
func (k *Key) Do(ctx context.Context, f func(redis.Cmdable) error) error {
	began := Now()
	s, err := k.call(ctx, true, f)
	if err != nil && s != nil && ctx.Err() == nil {
		s.fail(began, err)
	}
	return err
}

// Write is Do for a write, which a server can refuse and yet be read, with a mark from before it. F
// reports whether the key was changed. It is called once more only if again is set, and otherwise
// its failure does not show that the server is unreachable.
func (k *Key) Write(ctx context.Context, again bool, f func(redis.Cmdable) (changed bool, err error)) (m Mark, err error) {
	m = k.Mark()
	changed := false
	s, err := k.call(ctx, again, func(c redis.Cmdable) (err error) {
		changed, err = f(c)
		return err
	})
	if err != nil && again && !Replied(err) && s != nil && ctx.Err() == nil {
		s.fail(m.at, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// If there is another session by now, it may have been announced to nobody, and the next change be
	// another's.
	if err == nil && changed && m.changes >= k.session.Load() {
		m.allowed++
		k.own, k.wrote = max(k.own, m.allowed), Now()
	}
	return m, err
}
