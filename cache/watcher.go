package cache

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/push"
)

const (
	// heartbeat is how often the watching connection is pinged.
	heartbeat = 15 * time.Millisecond
	// trustWindow is how old the last answered heartbeat may be while memory is served without asking Redis: what a
	// purge can be overlooked for at the very most, whatever breaks. A slow moment costs a round trip, not coherence.
	trustWindow = 45 * time.Millisecond
	// watchdogTimeout is when a connection on which nothing comes any more is given up for a new one.
	watchdogTimeout = time.Second
	// unsupportedPause is how long a server that refuses to track is left in peace.
	unsupportedPause = 30 * time.Second
)

// never is a time that heard treats as long ago.
const never = -1 << 62

// A watcher hears of every change under the prefix on one server.
//
// It is one connection on which Redis pushes invalidations, pinged at short intervals. Redis writes the pushes that a
// command causes before it writes that command's reply, and a connection keeps its order: when the answer to a ping
// sent at time t has been read, every purge acknowledged before t has been heard. That is what memory is trusted on.
type watcher struct {
	store  *Store
	client *redis.Client
	addr   string
	last   atomic.Int64 // Store.now at which the last answered heartbeat was sent
	once   sync.Once    // logs that the server does not track
}

// heard says that every purge acknowledged before now-trustWindow has reached memory.
func (s *Store) heard(now time.Duration) bool {
	ws := s.watchers.Load()
	if ws == nil || int64(now)-s.confirmed.Load() > int64(topologyWindow) {
		return false
	}
	for _, w := range *ws {
		if int64(now)-w.last.Load() > int64(trustWindow) {
			return false
		}
	}
	return len(*ws) > 0
}

func (s *Store) newWatcher(o *redis.Options) *watcher {
	w := &watcher{store: s, addr: o.Addr}
	w.last.Store(never)
	w.client = redis.NewClient(o)
	// The name is free and the processor a real one, so registering cannot fail.
	_ = w.client.RegisterPushNotificationHandler("invalidate", invalidations{s}, true)
	return w
}

// run keeps a session going until ctx ends.
func (w *watcher) run(ctx context.Context) {
	defer func() { _ = w.client.Close() }()
	pause := probeFirst
	for ctx.Err() == nil {
		was := time.Now()
		err := w.session(ctx)
		w.last.Store(never)
		if ctx.Err() != nil {
			return
		}
		if time.Since(was) > watchdogTimeout {
			pause = probeFirst
		}
		var refused redis.Error
		if errors.As(err, &refused) && !isLoading(err) {
			w.once.Do(func() {
				w.store.log.Warn("redis does not let this process hear of purges: every answer is checked against it, which is slower",
					"redis", w.addr, "error", err, "see", "docs/coherence.md")
			})
			pause = unsupportedPause
		} else {
			w.store.log.Debug("not hearing of purges", "redis", w.addr, "error", err)
		}
		if !sleep(ctx, jitter(pause)) {
			return
		}
		pause = min(2*pause, probeMost)
	}
}

// session connects, and listens until the connection fails.
func (w *watcher) session(ctx context.Context) error {
	ps := w.client.Subscribe(ctx) // no channels: it is the connection that is wanted
	var closing sync.Once
	var closed error
	end := func(err error) {
		closing.Do(func() { closed = err; _ = ps.Close() })
	}
	defer end(nil)
	// The first ping connects; a server that does not track refuses in OnConnect.
	if err := ps.Ping(ctx, w.stamp()); err != nil {
		return err
	}
	var pong atomic.Int64
	pong.Store(int64(w.store.now()))
	beating, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		end(w.beat(beating, ps, &pong))
	}()
	defer func() { stop(); <-done }()

	first := true
	for {
		msg, err := ps.Receive(ctx) // pushes are handled inside, in the order they came
		if err != nil {
			stop()
			<-done
			if closed != nil {
				return closed
			}
			return err
		}
		if p, ok := msg.(*redis.Pong); ok {
			sent, err := strconv.ParseInt(p.Payload, 10, 64)
			if err != nil {
				return fmt.Errorf("answer to a heartbeat: %w", err)
			}
			pong.Store(int64(w.store.now()))
			if first {
				// Tracking is on. What was admitted before may have missed something: raise the epoch first.
				first = false
				w.store.epoch.Add(1)
				w.store.wakeAll()
			}
			w.last.Store(sent)
		}
	}
}

// beat pings until ctx ends or the connection seems dead. A server that hangs is found by this alone.
func (w *watcher) beat(ctx context.Context, ps *redis.PubSub, pong *atomic.Int64) error {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if quiet := w.store.now() - time.Duration(pong.Load()); quiet > watchdogTimeout {
			return fmt.Errorf("no answer to a heartbeat for %v", quiet.Round(time.Millisecond))
		}
		if err := ps.Ping(ctx, w.stamp()); err != nil {
			return err
		}
	}
}

func (w *watcher) stamp() string { return strconv.FormatInt(int64(w.store.now()), 10) }

// invalidations takes the pushes: the keys that changed, or null for all.
type invalidations struct{ store *Store }

// HandlePushNotification implements push.NotificationHandler.
func (i invalidations) HandlePushNotification(_ context.Context, _ push.NotificationHandlerContext, n []any) error {
	if len(n) < 2 || n[1] == nil {
		i.store.invalidate("")
		return nil
	}
	keys, ok := n[1].([]any)
	if !ok {
		i.store.invalidate("") // a form never seen: anything may have changed
		return nil
	}
	for _, key := range keys {
		if k, ok := key.(string); ok && k != "" {
			i.store.invalidate(k)
		}
	}
	return nil
}

func isLoading(err error) bool {
	return redis.IsLoadingError(err) || redis.IsMasterDownError(err) || redis.IsClusterDownError(err)
}
