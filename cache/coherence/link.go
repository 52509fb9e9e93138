package coherence

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A Link is a TCP connection's way between a replica and its server, and what can happen on it.
type Link struct {
	listener net.Listener
	tasks    sync.WaitGroup

	mu      sync.Mutex
	target  string
	changed chan struct{} // closed when what follows changes
	severed bool          // connections are closed, and new ones at once
	hung    bool          // nothing passes, and nobody is told
	deaf    bool          // nothing passes from the server on a connection that tracks
	delay   time.Duration // what the server sends arrives so much later
	made    int           // connections
	gone    int           // of the first so many nothing arrives any more, and nobody is told
	conns   map[net.Conn]bool
	closed  bool
}

// NewLink listens on a loopback port for what is meant for the target. It ends with the test.
func NewLink(t testing.TB, target string) *Link {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	l := &Link{listener: listener, target: target, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	l.tasks.Go(l.accept)
	t.Cleanup(func() {
		l.set(func() { l.closed = true })
		_ = listener.Close()
		l.tasks.Wait()
	})
	return l
}

// URL is the link as a setting.
func (l *Link) URL() string { return "redis://" + l.listener.Addr().String() }

// Cut closes connections, and new ones at once.
func (l *Link) Cut() { l.set(func() { l.severed = true }) }

// Hang lets nothing pass, and tells nobody.
func (l *Link) Hang() { l.set(func() { l.hung = true }) }

// Deafen lets nothing pass from the server on connections that track.
func (l *Link) Deafen() { l.set(func() { l.deaf = true }) }

// Slow has what the server sends arrive so much later.
func (l *Link) Slow(by time.Duration) { l.set(func() { l.delay = by }) }

// HalfOpen lets nothing pass any more on the connections that there are.
func (l *Link) HalfOpen() { l.set(func() { l.gone = l.made }) }

// Heal ends all but HalfOpen.
func (l *Link) Heal() { l.set(func() { l.severed, l.hung, l.deaf, l.delay = false, false, false, 0 }) }

// Lead takes new connections to another server. Those that there are stay.
func (l *Link) Lead(target string) { l.set(func() { l.target = target }) }

// Drop closes what there is, once.
func (l *Link) Drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		_ = conn.Close()
	}
}

func (l *Link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
	if l.severed || l.closed {
		for conn := range l.conns {
			_ = conn.Close()
		}
	}
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		target := l.target
		l.mu.Unlock()
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", target)
		if err != nil || !l.keep(target, client, server) {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		l.mu.Lock()
		l.made++
		nth := l.made
		l.mu.Unlock()
		l.tasks.Go(func() { l.connect(nth, client, server) })
	}
}

func (l *Link) keep(target string, conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.severed || l.closed || l.target != target {
		return false
	}
	for _, conn := range conns {
		l.conns[conn] = true
	}
	return true
}

// connect passes on what comes from either side until one of them ends.
func (l *Link) connect(nth int, client, server net.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	tracks := make(chan struct{}) // closed when the client asks to be told of changes
	var both sync.WaitGroup
	end := func() {
		cancel()
		_, _ = client.Close(), server.Close()
	}
	both.Go(func() { l.pass(ctx, nth, server, client, false, tracks); end() })
	both.Go(func() { l.pass(ctx, nth, client, server, true, tracks); end() })
	both.Wait()
	l.mu.Lock()
	delete(l.conns, client)
	delete(l.conns, server)
	l.mu.Unlock()
}

// A piece is what was read at once, and when.
type piece struct {
	at   time.Time
	data []byte
}

func (l *Link) pass(ctx context.Context, nth int, to io.Writer, from io.Reader, down bool, tracks chan struct{}) {
	pieces := make(chan piece, 10_000)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(pieces)
		for {
			buf := make([]byte, 4096)
			n, err := from.Read(buf)
			if n > 0 {
				pieces <- piece{time.Now(), buf[:n]}
			}
			if err != nil {
				return
			}
		}
	})
	defer reading.Wait()
	defer func() { // whoever reads is let go by the closing of its connection
		if c, ok := from.(io.Closer); ok {
			_ = c.Close()
		}
	}()
	for p := range pieces {
		if !down && bytes.Contains(p.data, []byte("tracking")) {
			close(tracks)
		}
		if !l.wait(ctx, nth, p, down, tracks) {
			return
		}
		if _, err := to.Write(p.data); err != nil {
			return
		}
	}
}

// wait returns when the piece may pass; false when it never will.
func (l *Link) wait(ctx context.Context, nth int, p piece, down bool, tracks <-chan struct{}) bool {
	for {
		l.mu.Lock()
		stopped, changed, delay, closed := l.hung || nth <= l.gone, l.changed, l.delay, l.closed
		if down && l.deaf {
			select {
			case <-tracks:
				stopped = true
			default:
			}
		}
		l.mu.Unlock()
		left := time.Until(p.at.Add(delay))
		switch {
		case closed:
			return false
		case stopped:
			select {
			case <-changed:
			case <-ctx.Done():
				return false
			}
		case down && left > 0:
			Pause(ctx, left)
		default:
			return ctx.Err() == nil
		}
	}
}
