package redistest

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// A Relay is a way to a server that can be cut, and that can lead to another server.
type Relay struct {
	listener net.Listener
	secure   bool // its clients speak TLS
	tasks    sync.WaitGroup

	mu     sync.Mutex
	target string // "" while it is cut
	last   string
	conns  map[net.Conn]bool
	holes  map[net.Conn]bool // what comes from these goes nowhere
	rate   int               // bytes a second; 0: as many as there are
	late   time.Duration     // what comes from the server is late by this
	muted  bool              // clients are told of changes of other keys than they ask for
	losing string            // after a command with this nothing comes on its connection any more,
	losses int               // so many times
}

// NewRelay leads to a target, "" for nowhere, until the test ends.
func NewRelay(t testing.TB, target string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	return relayOn(t, l, target)
}

// NewSecureRelay is NewRelay, and ends TLS on the way.
func NewSecureRelay(t testing.TB, target string) *Relay {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates})
	testkit.Must(t, err)
	r := relayOn(t, l, target)
	r.secure = true
	return r
}

func relayOn(t testing.TB, l net.Listener, target string) *Relay {
	r := &Relay{listener: l, target: target, conns: map[net.Conn]bool{}, holes: map[net.Conn]bool{}}
	r.tasks.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
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

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		target := r.target
		r.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if target == "" || err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.conns[client], r.conns[server] = true, true
		r.mu.Unlock()
		r.tasks.Go(func() { r.pass(server, client, false) })
		r.tasks.Go(func() { r.pass(client, server, true) })
	}
}

func (r *Relay) pass(to, from net.Conn, reply bool) {
	defer func() {
		_, _ = to.Close(), from.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, from)
	}()
	buf := make([]byte, 16<<10)
	var due time.Time // when all that was read should have passed
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		r.mu.Lock()
		hole, rate, muted, late := r.holes[from], r.rate, r.muted, r.late
		if !reply && r.losses > 0 && bytes.Contains(buf[:n], []byte(r.losing)) {
			r.losses--
			r.holes[to] = true
		}
		r.mu.Unlock()
		if rate > 0 {
			// A sleep that lasted too long is made up for: the rate is what was asked for on a busy machine too.
			if least := time.Now().Add(-time.Second / 4); due.Before(least) {
				due = least
			}
			due = due.Add(time.Duration(n) * time.Second / time.Duration(rate))
			<-time.After(time.Until(due))
		}
		if hole {
			continue
		}
		if reply {
			<-time.After(late)
		}
		passing := buf[:n]
		if muted {
			for _, length := range []string{"14", "15"} { // of vitrine:lease: and vitrine:banners
				passing = bytes.ReplaceAll(passing, []byte("prefix\r\n$"+length+"\r\nvitrine:"), []byte("prefix\r\n$"+length+"\r\nanother:"))
			}
		}
		if _, err := to.Write(passing); err != nil {
			return
		}
	}
}

// Cut closes all connections, and lets nobody connect.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.target != "" {
		r.target, r.last = "", r.target
	}
	for c := range r.conns {
		_ = c.Close()
	}
}

// Heal leads to where it led before it was cut.
func (r *Relay) Heal() { r.Lead(r.last) }

// Lead takes new connections elsewhere. Those that there are stay.
func (r *Relay) Lead(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
}

// Hole lets nothing pass any more on the connections that there are, and everything on new ones.
func (r *Relay) Hole() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		r.holes[c] = true
	}
}

// Mute has new connections track other keys, so that no change of theirs is announced.
func (r *Relay) Mute() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.muted = true
}

// Throttle lets so many bytes pass in a second, on each connection and in each direction.
func (r *Relay) Throttle(rate int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rate = rate
}

// Slow has what comes from the server be late.
func (r *Relay) Slow(late time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = late
}

// Lose has no reply come to the next commands with a text, so many, and says how many are left.
func (r *Relay) Lose(text string, times int) (left func() int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losing, r.losses = text, times
	return func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.losses
	}
}

// Conns is how many connections there are, each of which has two ends here.
func (r *Relay) Conns() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns)
}
