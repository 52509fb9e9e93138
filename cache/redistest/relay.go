package redistest

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// A Relay is a TCP connection's way between a replica and its server, and what can happen on it.
type Relay struct {
	listener net.Listener
	secure   bool // its clients speak TLS
	tasks    sync.WaitGroup

	mu      sync.Mutex
	target  string
	changed chan struct{} // closed when what follows changes
	severed bool          // connections are closed, and new ones at once
	hung    bool          // nothing passes, and connections stay open
	delay   time.Duration // what the server sends arrives so much later
	twice   bool          // what the server sends arrives again
	stuck   bool          // what it sent last is the answer to all
	last    map[int][]byte
	widest  int          // the length of a value that closes the connection; 0: none does
	rate    int          // bytes a second, on each connection and in each direction; 0: as many as there are
	losing  string       // no reply comes to a command with this,
	losses  int          // so many times,
	lost    map[int]bool // nor to what follows it on its connection
	made    int          // connections, by number
	gone    int          // of the first so many nothing arrives any more, and they stay open
	lie     *Lie         // what answers instead of the server
	conns   map[net.Conn]bool
}

// NewRelay listens on a loopback port for what is meant for the target. It ends with the test.
func NewRelay(t testing.TB, target string) *Relay {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	return relayOn(t, listener, target)
}

// NewSecureRelay is NewRelay, and ends TLS on the way.
func NewSecureRelay(t testing.TB, target string) *Relay {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates})
	testkit.Must(t, err)
	r := relayOn(t, listener, target)
	r.secure = true
	return r
}

func relayOn(t testing.TB, listener net.Listener, target string) *Relay {
	r := &Relay{listener: listener, target: target, changed: make(chan struct{}), lost: map[int]bool{}, last: map[int][]byte{}, conns: map[net.Conn]bool{}}
	r.tasks.Go(r.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		r.Cut()
		r.tasks.Wait()
	})
	return r
}

// Addr is HOST:PORT.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// URL is the setting that leads to it.
func (r *Relay) URL() string {
	if r.secure {
		return "rediss://" + r.Addr() + "?skip_verify=true"
	}
	return "redis://" + r.Addr()
}

// Conns is how many ends of connections there are.
func (r *Relay) Conns() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns)
}

// Cut closes connections, and new ones at once.
func (r *Relay) Cut() { r.set(func() { r.severed = true }) }

// Hang lets nothing pass; connections stay open.
func (r *Relay) Hang() { r.set(func() { r.hung = true }) }

// Throttle lets so many bytes pass in a second.
func (r *Relay) Throttle(rate int) { r.set(func() { r.rate = rate }) }

// Narrow closes a connection on which a client sends a value of that many bytes, or more.
func (r *Relay) Narrow(least int) { r.set(func() { r.widest = least }) }

// Slow has what the server sends arrive so much later.
func (r *Relay) Slow(by time.Duration) { r.set(func() { r.delay = by }) }

// Repeat has what the server sends arrive again.
func (r *Relay) Repeat() { r.set(func() { r.twice = true }) }

// Stick answers whatever a client sends by what the server has sent last on that connection.
func (r *Relay) Stick() { r.set(func() { r.stuck = true }) }

// Hole lets nothing pass any more on the connections that there are.
func (r *Relay) Hole() { r.set(func() { r.gone = r.made }) }

// Lie answers whatever a client sends, but for its greeting and what follows that, by a lie without end.
func (r *Relay) Lie(l Lie) { r.set(func() { r.lie = &l }) }

// Heal ends all but Hole and Lose.
func (r *Relay) Heal() {
	r.set(func() {
		r.severed, r.hung, r.twice, r.stuck, r.delay, r.rate, r.lie = false, false, false, false, 0, 0, nil
	})
}

// Lead takes new connections to another server. Those that there are stay.
func (r *Relay) Lead(target string) { r.set(func() { r.target = target }) }

// Lose has no reply come to the next commands with a text, so many, and says how many are left.
func (r *Relay) Lose(text string, times int) (left func() int) {
	r.set(func() { r.losing, r.losses = text, times })
	return func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.losses
	}
}

// Drop closes what there is, once.
func (r *Relay) Drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.conns {
		_ = conn.Close()
	}
}

func (r *Relay) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.changed)
	r.changed = make(chan struct{})
	if r.severed {
		for conn := range r.conns {
			_ = conn.Close()
		}
	}
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		target := r.target
		r.mu.Unlock()
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		if r.severed || r.target != target {
			r.mu.Unlock()
			_, _ = client.Close(), server.Close()
			continue
		}
		r.conns[client], r.conns[server] = true, true
		r.made++
		nth := r.made
		r.mu.Unlock()
		r.tasks.Go(func() { r.connect(nth, client, server) })
	}
}

// connect passes on what comes from either side until one of them ends.
func (r *Relay) connect(nth int, client, server net.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	var both sync.WaitGroup
	end := func() {
		cancel()
		_, _ = client.Close(), server.Close()
	}
	both.Go(func() { r.pass(ctx, nth, server, client, false); end() })
	both.Go(func() { r.pass(ctx, nth, client, server, true); end() })
	both.Wait()
	r.mu.Lock()
	delete(r.conns, client)
	delete(r.conns, server)
	r.mu.Unlock()
}

// A piece is what was read at once, and when.
type piece struct {
	at   time.Time
	data []byte
}

func (r *Relay) pass(ctx context.Context, nth int, to, from net.Conn, down bool) {
	pieces := make(chan piece, 10_000)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(pieces)
		for due := time.Now(); ; {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			if n > 0 {
				due = r.pace(due, n)
				pieces <- piece{time.Now(), buf[:n]}
			}
			if err != nil {
				return
			}
		}
	})
	defer reading.Wait()
	defer func() { _ = from.Close() }() // which ends the reading
	sent := 0
	for p := range pieces {
		if !down {
			if r.sent(nth, p.data) {
				return
			}
			sent++
			if lie := r.lies(); lie != nil && (sent > 2 || !greeting(p.data)) {
				_ = to.Close()
				lie.tell(ctx, from)
				return
			}
		}
		if !r.wait(ctx, nth, p, down) {
			return
		}
		r.mu.Lock()
		again, stuck := down && r.twice, r.last[nth]
		if down {
			r.last[nth] = p.data
		} else if !r.stuck {
			stuck = nil
		}
		r.mu.Unlock()
		if !down && stuck != nil {
			if _, err := from.Write(stuck); err != nil {
				return
			}
			continue
		}
		if again {
			p.data = append(p.data, p.data...)
		}
		if _, err := to.Write(p.data); err != nil {
			return
		}
	}
}

func (r *Relay) lies() *Lie {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lie
}

// pace waits for as long as n bytes take on a throttled link, on which those before were due then. A
// sleep that lasted too long is made up for: the rate is what was asked for on a busy machine too.
func (r *Relay) pace(due time.Time, n int) time.Time {
	r.mu.Lock()
	rate := r.rate
	r.mu.Unlock()
	if rate == 0 {
		return due
	}
	if late := time.Now().Add(-time.Second / 4); due.Before(late) {
		due = late
	}
	due = due.Add(time.Duration(n) * time.Second / time.Duration(rate))
	<-time.After(time.Until(due))
	return due
}

// sent notes the commands to which no reply comes, and reports whether one is too wide.
func (r *Relay) sent(nth int, data []byte) (tooWide bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.losses > 0 && bytes.Contains(data, []byte(r.losing)) {
		r.losses--
		r.lost[nth] = true
	}
	for _, part := range bytes.Split(data, []byte("\r\n$"))[1:] {
		length, _, _ := bytes.Cut(part, []byte("\r\n"))
		if size, _ := strconv.Atoi(string(length)); r.widest > 0 && size >= r.widest {
			return true
		}
	}
	return false
}

// wait returns when the piece may pass; false when it never will.
func (r *Relay) wait(ctx context.Context, nth int, p piece, down bool) bool {
	for {
		r.mu.Lock()
		stopped, changed, delay, severed := r.hung || nth <= r.gone || down && r.lost[nth], r.changed, r.delay, r.severed
		r.mu.Unlock()
		left := time.Until(p.at.Add(delay))
		switch {
		case severed:
			return false
		case stopped:
			select {
			case <-changed:
			case <-ctx.Done():
				return false
			}
		case down && left > 0:
			select {
			case <-time.After(left):
			case <-ctx.Done():
			}
		default:
			return ctx.Err() == nil
		}
	}
}
