package poll

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/reply"
)

// A link is the poll's client and the one for bodies. Run and what follows are the loop's own.
type link struct {
	n             int64
	polls, bodies *client

	run   string    // the server process, if INFO names it
	asked bool      // for that
	id    int64     // the server's name for the connection: a proxy can exchange the server
	clock time.Time // the server's at the last poll, to the microsecond
	asks  int       // which of roles
}

// present is the link that there is, or nil.
func (l *loop) present() *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.link
}

// current is the link; it dials when it is first used. A client is made for each: a pool repeats the
// error of one failed dial for a second. Only the loop itself replaces one.
func (l *loop) current(ctx context.Context, own bool) (*link, error) {
	k := l.present()
	if k != nil && (!own || l.drop.Load() != k.n) {
		return k, nil
	}
	if k != nil {
		l.replace(k)
	}
	d := l.r.dial
	addr, err := d.find(ctx, l.key)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.link == nil { // else it is another caller's
		l.dials++
		l.link = &link{n: l.dials, polls: d.connect(d.server, addr, pollBulk), bodies: d.connect(d.server, addr, l.r.o.MostBody)}
	}
	return l.link, nil
}

// replace closes a link, or the present one if k is nil: nobody waits for a body of it in vain.
func (l *loop) replace(k *link) {
	l.mu.Lock()
	if k == nil {
		k = l.link
	}
	if l.link == k {
		l.link = nil
	}
	l.mu.Unlock()
	if k != nil {
		_, _ = k.polls.Close(), k.bodies.Close()
	}
}

// do calls f with the client of the link.
func (l *loop) do(ctx context.Context, f func(ctx context.Context, c *redis.Client) error) error {
	k, err := l.current(ctx, false)
	if err != nil {
		return err
	}
	return reply.Recover(func() error { return f(ctx, k.bodies.Client) })
}

// probe asks a fresh connection, once a second, which process it reaches: a server that was exchanged
// or demoted can go on answering on the old one.
func (l *loop) probe(ctx context.Context) {
	k := l.present()
	if k == nil || k.run == "" || Now()-l.probed < probePause {
		return
	}
	l.probed = Now()
	run, n := k.run, k.n
	l.r.tasks.Go(func() {
		limited, cancel := context.WithTimeout(ctx, max(2*l.r.o.Patience, time.Second))
		defer cancel()
		addr, err := l.r.dial.find(limited, l.key)
		if err != nil {
			return
		}
		c := l.r.dial.connect(l.r.dial.server, addr, pollBulk)
		defer func() { _ = c.Close() }()
		var now string
		_ = reply.Recover(func() error {
			now = runID(c.Info(limited, "server").Val())
			return nil
		})
		if now != "" && now != run {
			l.r.o.Log.Warn("another redis process answers at this address", "redis", l.r.Addr())
			l.drop.Store(n)
			Wake(l.woken)
		}
	})
}
