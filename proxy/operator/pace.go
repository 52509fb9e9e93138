package operator

import (
	"net"
	"sync"
	"time"
)

const (
	// paceEach is how far apart reads are, those of all connections together, and paceBytes what one
	// may bring: more counts as several.
	paceEach  = time.Millisecond
	paceBytes = 64 << 10
	// paceAhead is how much of that time may be taken at once, after as long a rest.
	paceAhead = 250 * time.Millisecond
)

// pacedListener bounds what its connections bring in a second, in reads and in bytes, whatever is
// sent: requests that are refused, that have no turn or that never end. What comes faster waits,
// each connection in its turn, so that nobody is shut out by another.
type pacedListener struct {
	net.Listener
	mu   sync.Mutex // guards next
	next time.Time  // when the time taken ends
}

// Accept implements [net.Listener].
func (l *pacedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &pacedConn{Conn: c, pace: l}, nil
}

// wait takes the time for n bytes.
func (l *pacedListener) wait(n int) {
	l.mu.Lock()
	if least := time.Now().Add(-paceAhead); l.next.Before(least) {
		l.next = least
	}
	l.next = l.next.Add(paceEach * time.Duration(1+n/paceBytes))
	next := l.next
	l.mu.Unlock()
	<-time.After(time.Until(next))
}

type pacedConn struct {
	net.Conn
	pace *pacedListener
}

// Read implements [net.Conn].
func (c *pacedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.pace.wait(n)
	}
	return n, err
}
