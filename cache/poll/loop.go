package poll

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/reply"
)

// A loop polls one server.
type loop struct {
	r     *Redis
	key   string // of a document there
	woken chan struct{}

	reads    atomic.Bool  // a reader came since the last poll
	waiting  atomic.Int64 // readers that wait, and loads under way
	drop     atomic.Int64 // the number of a link that is to be replaced
	answered atomic.Int64 // when the last answered poll was sent

	unreachable atomic.Bool
	roundTrip   atomic.Int64

	mu      sync.Mutex // guards the fields below, and the members' rides
	members []*Member
	link    *link
	dials   int64

	since  time.Duration // it is unreachable; like the next of run alone
	failed time.Duration // when a poll timed out last
	probed time.Duration
	far    bool // the round trip was too long for the bound
}

// run polls until ctx ends.
func (l *loop) run(ctx context.Context) {
	for active := Now(); ctx.Err() == nil; {
		began := Now()
		results, err := l.pollOn(ctx)
		if ctx.Err() != nil {
			return
		}
		if l.note(err); err != nil {
			l.pass(nil, &Result{Unreachable: true})
		} else {
			l.pass(results, nil)
		}
		every := l.pace()
		switch {
		case l.reads.Swap(false) || l.waiting.Load() > 0 || l.doubted():
			active = Now()
			l.probe(ctx)
		case Now()-active > min(max(100*time.Duration(l.roundTrip.Load()), every), time.Second):
			every = max(l.r.o.Idle, every)
		}
		woken := l.woken
		if err != nil { // also while nobody reads: the next visitor is answered from memory at once
			every, woken = jitter(l.r.o.Bound), nil
			began = Now()
		}
		timer := time.NewTimer(max(every-(Now()-began), 0))
		select {
		case <-timer.C:
		case <-woken:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// pollOn polls, and again on another connection if that fails: both within the time that Redis can be
// silent. Then nobody waits for it who can be answered without, and the last attempt has more time.
func (l *loop) pollOn(ctx context.Context) (results map[*Member]*Result, err error) {
	silence := l.r.o.Patience
	if !l.unreachable.Load() && l.answered.Load() > 0 {
		short, cancel := context.WithTimeout(ctx, silence)
		defer cancel()
		if results, err = l.poll(short, silence*2/3); err == nil {
			return results, nil
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
			l.failed = Now()
		}
		if results, err = l.poll(short, silence/3); err == nil || ctx.Err() != nil {
			return results, err
		}
		l.pass(nil, &Result{Doubted: true})
	}
	return l.poll(ctx, 2*silence) // for the greeting, and the poll
}

// doubted reports whether a poll has timed out lately: visitors have waited for that.
func (l *loop) doubted() bool { return l.failed > 0 && Now()-l.failed < doubtLasts }

// pace is the time from one poll to the next while there are readers: a loaded Redis is asked less, and a
// far one often enough.
func (l *loop) pace() time.Duration {
	bound, trip := l.r.o.Bound, time.Duration(l.roundTrip.Load())
	return min(max(min(4*trip, l.r.Trust()-2*trip), bound/6), bound/2)
}

// note logs whether Redis is reachable.
func (l *loop) note(err error) {
	log := l.r.o.Log
	switch was := l.unreachable.Swap(err != nil); {
	case err != nil && !was:
		l.since = Now()
		log.Warn("redis unreachable; serving from memory and the CMS, uncoordinated", "redis", l.r.Addr(), "error", err)
	case err == nil && was:
		log.Info("redis is back", "redis", l.r.Addr(), "after", (Now() - l.since).Round(time.Millisecond))
	}
}

// pass passes results on, or one for all. One that was not taken yet is replaced.
func (l *loop) pass(results map[*Member]*Result, all *Result) {
	l.mu.Lock()
	members := l.members
	l.mu.Unlock()
	for _, m := range members {
		result := cmp.Or(all, results[m])
		if result == nil { // this document was not answered
			continue
		}
		select {
		case <-m.results:
		default:
		}
		m.results <- result
	}
}

var errNoAnswer = errors.New("not an answer")

// poll asks once, and again at once while a document changes between its two readings.
func (l *loop) poll(ctx context.Context, silence time.Duration) (results map[*Member]*Result, err error) {
	k, err := l.current(ctx, true)
	if err != nil {
		l.r.unanswered.Add(1)
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	for range 5 {
		err = reply.Recover(func() (err error) {
			results, err = l.ask(limited, k)
			return err
		})
		if err == nil || !errors.Is(err, lease.ErrTorn) {
			break
		}
	}
	if err != nil {
		l.r.unanswered.Add(1)
		if !errors.Is(err, lease.ErrTorn) {
			l.replace(k)
		}
	}
	return results, err
}

// A boarding is a script in front of a poll.
type boarding struct {
	lease.Ride
	m   *Member
	cmd *redis.Cmd
}

// ask sends one pipeline, with what rides in front of it, and reads what it shows. Sent is taken before
// it is written, and before rides board: a late timer costs waiting, never truth.
func (l *loop) ask(ctx context.Context, k *link) (map[*Member]*Result, error) {
	sent := Now()
	p := k.polls.Pipeline()
	boarded, members := l.board(ctx, p)
	questions := make([]lease.Question, len(members))
	for i, m := range members {
		questions[i] = m.hash.Ask(ctx, p)
	}
	role := p.Do(ctx, roles[k.asks])
	clock := p.Time(ctx)
	var info *redis.StringCmd
	if !k.asked {
		info = p.Info(ctx, "server")
	}
	answered, err := p.Exec(ctx)
	for _, c := range answered {
		if !isReply(c.Err()) {
			l.missed(boarded)
			return nil, c.Err()
		}
	}
	// Zero, also where go-redis could not connect: then no command has the error. Not later than the one
	// before: a reply that comes twice is read as that to the next poll.
	if !clock.Val().After(k.clock) {
		l.missed(boarded)
		return nil, cmp.Or(err, clock.Err(), errNoAnswer)
	}
	k.clock = clock.Val()
	for _, b := range boarded {
		if b.Acquire {
			b.m.rode, b.m.refusal = b.Token, b.cmd.Err()
		}
	}
	if took := int64(Now() - sent); len(boarded) == 0 && k.asked { // the first one connects
		if last := l.roundTrip.Load(); last > 0 {
			took = last + (took-last)/8
		}
		l.roundTrip.Store(took)
	}
	demoted, exchanged := l.greeted(k, role)
	if demoted != "" {
		l.missed(boarded)
		return nil, errors.New("redis: not a master, but " + demoted)
	}
	if info != nil {
		k.asked, k.run = true, runID(info.Val())
	}
	results := map[*Member]*Result{}
	for i, m := range members {
		r, err := questions[i].Record(clock.Val().UnixMilli())
		if err != nil {
			return nil, err // what rode is done
		}
		results[m] = &Result{Sent: sent, Record: r, Run: k.run, Conn: k.n, Rode: m.rode, Refusal: m.refusal, Doubted: l.doubted()}
		exchanged = exchanged || m.set != "" && m.set != r.Set
		m.set = r.Set
	}
	if exchanged { // which process was it? If it does not say, the connection decides
		now := k.polls.Info(ctx, "server")
		if !isReply(now.Err()) {
			return nil, now.Err()
		}
		k.run = runID(now.Val())
		for _, r := range results {
			r.Run = k.run
		}
	}
	l.answered.Store(int64(sent))
	l.measure()
	return results, nil
}

// roles are the commands that tell whether a server is a master, and which it is: HELLO, or where that
// is renamed or refused, another.
var roles = []string{"hello", "role", "ping"}

// greeted reads what the server says of itself: what it is instead of a master, and whether another one
// answers on this connection, as behind a proxy.
func (l *loop) greeted(k *link, c *redis.Cmd) (demoted string, exchanged bool) {
	if c.Err() != nil {
		k.asks = min(k.asks+1, len(roles)-1)
		return "", false
	}
	role, id := "", int64(0)
	all, _ := c.Val().([]any)
	switch roles[k.asks] {
	case "hello":
		for i := 0; i+1 < len(all); i += 2 {
			switch all[i] {
			case "role":
				role, _ = all[i+1].(string)
			case "id":
				id, _ = all[i+1].(int64)
			}
		}
	case "role":
		if len(all) > 0 {
			role, _ = all[0].(string)
		}
	}
	exchanged = k.id != 0 && id != k.id
	k.id = id
	if role == "master" {
		role = ""
	}
	return role, exchanged
}

// isReply reports whether a reply has come, an error included.
func isReply(err error) bool {
	var reply redis.Error
	return err == nil || errors.As(err, &reply)
}

// board has what rides go in front.
func (l *loop) board(ctx context.Context, p redis.Pipeliner) (all []boarding, members []*Member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.members {
		for _, r := range m.rides {
			all = append(all, boarding{r, m, r.Send(ctx, p, m.hash)})
		}
		m.rides = nil
	}
	return all, l.members
}

// missed has what rode in front of a poll without an answer ride again. An acquire does not: a token is
// sent once, and the next poll shows whether it was granted.
func (l *loop) missed(all []boarding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range all {
		if !b.Acquire && len(b.m.rides) < 8 {
			b.m.rides = append(b.m.rides, b.Ride)
		}
	}
}

func runID(info string) string {
	_, after, _ := strings.Cut(info, "run_id:")
	id, _, _ := strings.Cut(after, "\r\n")
	return id
}

// measure logs a round trip that is too long for hits not to wait.
func (l *loop) measure() {
	trip := time.Duration(l.roundTrip.Load())
	enough := l.r.Enough(trip)
	if enough > 0 && !l.far {
		l.r.o.Log.Warn("redis is too far away for the purge bound: every request waits for it", "redis", l.r.Addr(),
			"round_trip", trip.Round(time.Millisecond), "purge_bound", l.r.o.Bound, "would_do", enough)
	}
	l.far = enough > 0
}
