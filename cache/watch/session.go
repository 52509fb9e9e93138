package watch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/push"
	"golang.org/x/sync/errgroup"
)

const (
	// watchdog is how long nothing need come before the connection is replaced, beside the pause
	// between two pings.
	watchdog = time.Second
	// idleBeat is how often the connection is pinged while nobody reads.
	idleBeat = time.Second
	// refusedPause is the pause before asking a server again that refuses tracking.
	refusedPause = 30 * time.Second
)

var (
	// errAgain ends a session for a new one at once.
	errAgain = errors.New("listening again")
	// errUnannounced means that a write of this process was not announced on the connection.
	errUnannounced = errors.New("changes are not announced on the listening connection")
	// errReplica means that the server is not a master, so its announcements are late.
	errReplica = errors.New("a replica, not a master")
)

// listen keeps a session running until the server is closed.
func (s *Server) listen() {
	pause := probeFirst
	for s.ctx.Err() == nil {
		select {
		case <-s.again: // before keys is read, so that no later one is missed
		default:
		}
		keys := s.w.on(s)
		if len(keys) == 0 { // nobody wants to know
			if !Wait(s.ctx, s.again, time.Hour) {
				return
			}
			continue
		}
		was := Now()
		gotPush, err := s.session(keys)
		s.answered.Store(never)
		if gotPush {
			s.deaf = false
		}
		s.notify(Lost)
		if s.ctx.Err() != nil {
			return
		}
		if Now()-was > watchdog {
			pause = probeFirst
		}
		switch {
		case errors.Is(err, errAgain):
			continue
		case refusesTracking(err), errors.Is(err, errUnannounced) && !gotPush:
			if !s.deaf {
				s.deaf = true
				s.w.o.Log.Warn("redis refused CLIENT TRACKING; checking redis on every request", "redis", s.addr, "error", err, "see", "docs/coherence.md")
			}
			pause = refusedPause
		case errors.Is(err, errUnannounced):
			s.w.o.Log.Warn("redis did not announce a write: connecting again", "redis", s.addr)
			s.renew(s.pool.Load())
			continue
		default:
			s.w.o.Log.Debug("not receiving changes", "redis", s.addr, "error", err)
		}
		if !Wait(s.ctx, s.again, Jitter(pause)) {
			return
		}
		pause = min(2*pause, probeMost)
	}
}

// refusesTracking distinguishes a server that refuses tracking from one that cannot answer at the
// moment (loading, busy, failing over).
func refusesTracking(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	code, _, _ := strings.Cut(reply.Error(), " ")
	return code == "ERR" || code == "NOPERM" || code == "NOPROTO"
}

// session connects, and receives changes until the connection fails. It reports whether there was a
// change.
//
// Redis writes the invalidations that a command causes before it writes that command's reply, and a
// connection keeps its order: when the answer to a ping sent at time t has been read, every change
// acknowledged before t has been received. That is what memory is trusted on.
func (s *Server) session(keys []*Key) (gotPush bool, err error) {
	b := &beats{s: s, keys: keys}
	client := redis.NewClient(b.options()) // whose only connection is that of b.ps
	// The name is free and the processor is not nil, so registering cannot fail.
	_ = client.RegisterPushNotificationHandler("invalidate", b, true)
	b.ps = client.Subscribe(s.ctx) // no channels: only the connection is needed
	// The first ping connects; a server without tracking fails in OnConnect.
	if err := b.ping(s.ctx); err != nil {
		_ = b.ps.Close()
		return false, err
	}
	tasks, ctx := errgroup.WithContext(s.ctx) // whose Wait ends ctx
	tasks.Go(func() error { return b.beat(ctx) })
	tasks.Go(func() error { return b.receive(ctx) })
	tasks.Go(func() error { <-ctx.Done(); return b.ps.Close() }) // one of the two has ended
	err = tasks.Wait()
	return b.gotPush.Load(), err
}

// beats are the pings of one session, and the changes received between their answers.
type beats struct {
	s       *Server
	ps      *redis.PubSub
	keys    []*Key
	run     string // run_id of the process that is listened to, or "" if unknown
	gotPush atomic.Bool
	begun   bool // the first ping was answered: changes before count as those of the time between sessions
}

func (b *beats) ping(ctx context.Context) error {
	return b.ps.Ping(ctx, strconv.FormatInt(int64(Now()), 10))
}

// beat pings until ctx ends: often while keys are read, otherwise rarely.
func (b *beats) beat(ctx context.Context) error {
	timer := time.NewTimer(b.s.w.heartbeat)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.s.again:
			return errAgain
		case <-b.s.poked:
		case <-timer.C:
		}
		if b.run != "" && b.run != *b.s.run.Load() { // new connections lead to another process
			return errAgain
		}
		pause := b.s.w.pace(b.s.w.heartbeat, idleBeat)
		if err := b.ping(ctx); err != nil {
			return err
		}
		timer.Reset(pause)
	}
}

// receive reads until the connection fails, or seems dead. Pushes are handled inside Receive, in
// order of arrival.
func (b *beats) receive(ctx context.Context) error {
	for {
		silence := max(watchdog, 2*b.s.w.o.Bound)
		if b.s.w.idle(Now()) {
			silence += idleBeat
		}
		msg, err := b.ps.ReceiveTimeout(ctx, silence)
		if err != nil {
			return err
		}
		pong, ok := msg.(*redis.Pong)
		if !ok {
			continue
		}
		sent, err := strconv.ParseInt(pong.Payload, 10, 64)
		if err != nil {
			return fmt.Errorf("answer to a ping: %w", err)
		}
		if sent <= b.s.answered.Load() || sent > int64(Now()) {
			return errors.New("not the answer to the next ping")
		}
		b.s.measure(Now() - time.Duration(sent))
		// In this order:
		//  1. tracking is on, and earlier reads may have missed a change, so nothing from before is
		//     trusted;
		//  2. an own write that should have been announced by now and was not ends the session;
		//  3. memory is trusted on this answer;
		//  4. the server is there;
		//  5. everybody looks.
		for _, k := range b.keys {
			if !b.begun {
				k.begin(b.s)
			}
			if k.settle(time.Duration(sent)) {
				return errUnannounced
			}
		}
		if !b.begun {
			b.s.begun.Store(int64(Now()))
		}
		b.s.answered.Store(sent)
		if !b.begun {
			b.begun = true
			b.s.back()
			b.s.notify(Back)
		}
	}
}

// measure records a round trip, and logs one that is too long for trusting memory.
func (s *Server) measure(took time.Duration) {
	average := time.Duration(s.roundTrip.Load())
	average += (took - average) / 8
	s.roundTrip.Store(int64(average))
	if far := average > s.w.trust-s.w.heartbeat; far != s.far && (far || average < (s.w.trust-s.w.heartbeat)/2) {
		if s.far = far; far {
			s.w.o.Log.Warn("redis is too far away for the purge bound: every request waits for it", "redis", s.addr,
				"round_trip", average.Round(time.Millisecond), "purge_bound", s.w.o.Bound, "enough", Enough(average))
		}
	}
}

// Enough is the purge bound, in whole hundredths of a second, that a round trip to Redis needs.
func Enough(roundTrip time.Duration) time.Duration {
	return (roundTrip * 5 / 2).Truncate(10*time.Millisecond) + 10*time.Millisecond
}

// options are for a connection that receives pushes. Tracking is switched on as part of
// connecting, so that it is never connected without tracking.
func (b *beats) options() *redis.Options {
	o := b.s.Dedicated()
	o.ReadTimeout, o.WriteTimeout = watchdog, watchdog
	dial, dialled := o.Dialer, false
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dialled { // go-redis replaces a connection that fails, but a session has one: see Key.listen
			return nil, net.ErrClosed
		}
		dialled = true
		return dial(ctx, network, addr)
	}
	o.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		run, err := process(ctx, cn)
		if err != nil {
			return err
		}
		b.run = run
		b.s.exchanged(run) // this connection is new itself
		// If HELLO is refused, go-redis continues in RESP2, in which tracking can be switched on
		// and pings are answered, but no push ever arrives.
		hello, err := cn.Hello(ctx, o.Protocol, "", "", "").Result()
		if err != nil {
			return err
		}
		if role, _ := hello["role"].(string); role == "replica" || role == "slave" {
			return errReplica
		}
		return cn.ClientTrackingOn(ctx, &redis.ClientTrackingOptions{Bcast: true, Prefixes: tracked(b.keys)}).Err()
	}
	return o
}

// HandlePushNotification implements push.NotificationHandler: the keys that changed, or null for
// all.
func (b *beats) HandlePushNotification(_ context.Context, _ push.NotificationHandlerContext, n []any) error {
	b.gotPush.Store(true)
	var names []any
	if len(n) > 1 {
		names, _ = n[1].([]any)
	}
	for _, k := range b.keys {
		if names == nil && b.begun { // null, or an unknown form: anything may have changed
			k.change(true)
		}
		for _, name := range names {
			switch {
			case name == k.beside:
				k.besides.Add(1)
				k.notify(Beside)
			case name == k.name && b.begun:
				k.change(false)
			case name == k.name: // begin counts as a change, and has everybody look
				k.notify(Changed)
			}
		}
	}
	return nil
}

// tracked are the prefixes of the keys: each key's name, and what the names of those beside them
// begin with. Of two of which one begins the other it is the shorter, since Redis refuses prefixes
// that overlap, and with them all tracking.
func tracked(keys []*Key) (prefixes []string) {
	for _, k := range keys {
		prefixes = append(prefixes, k.name, strings.TrimSuffix(k.beside, "{"+k.name+"}"))
	}
	slices.Sort(prefixes)
	shortest := prefixes[:0]
	for _, p := range prefixes {
		if n := len(shortest); n == 0 || !strings.HasPrefix(p, shortest[n-1]) {
			shortest = append(shortest, p)
		}
	}
	return shortest
}
