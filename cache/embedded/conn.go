package embedded

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The bounds of one connection.
const (
	maxWords    = 1 << 10
	maxCommand  = 64 << 10  // bytes of a command
	maxScript   = 128 << 20 // bytes of a script of vitrine's with its arguments: a document is one
	commandTime = 10 * time.Second
	writeTime   = time.Second // for a client that does not read, by command
	slowest     = 8 << 20     // bytes per second that a client reads at least, besides
)

// errProtocol ends a connection.
var errProtocol = errors.New("protocol error")

// A conn is a connection from which miniredis, which trusts lengths and allocates what they
// announce, reads only what keeps within the bounds. Of all connections one at a time may send a
// command longer than maxCommand, and only a script of vitrine's.
type conn struct {
	net.Conn
	in      *bufio.Reader
	scripts func(script string) bool
	large   chan struct{} // room for the one
	release func()

	words, read int       // of the command: all, and those that have been read
	size        int       // bytes announced
	begin       [2]string // the first words
	inWord      bool
	left        int // bytes of the word
	isLarge     bool

	patience atomic.Int64 // what is left of writeTime, in nanoseconds
}

// newConn bounds a connection. It calls release when it is closed.
func newConn(c net.Conn, scripts func(string) bool, large chan struct{}, release func()) (*conn, error) {
	// A place is for those who have something to say.
	err := c.SetReadDeadline(time.Now().Add(commandTime))
	return &conn{Conn: c, in: bufio.NewReader(c), scripts: scripts, large: large, release: release}, err
}

// Read reads a line, or a part of a word. P, of a bufio.Reader, has room for any line.
func (c *conn) Read(p []byte) (n int, err error) {
	switch {
	case c.left > 0:
		n, err = c.in.Read(p[:min(len(p), c.left)])
		c.left -= n
		if c.read < len(c.begin) {
			c.begin[c.read] += string(p[:n])
		}
	case c.read < c.words:
		n, err = c.line(p)
	default:
		c.endLarge()
		if err = c.await(); err == nil {
			n, err = c.line(p)
		}
	}
	if err != nil {
		c.endLarge()
	}
	if errors.Is(err, errProtocol) {
		_, _ = c.Write([]byte("-ERR Protocol error: want an array of bulk strings, within the bounds of the embedded store\r\n"))
	}
	return n, err
}

// await waits for the next command: as long as it takes, but for the first.
func (c *conn) await() error {
	c.patience.Store(int64(writeTime))
	if c.words > 0 && c.in.Buffered() == 0 {
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
	}
	if _, err := c.in.Peek(1); err != nil {
		return err
	}
	c.words, c.read, c.size, c.begin = 0, 0, 0, [2]string{}
	return c.SetReadDeadline(time.Now().Add(commandTime))
}

// line reads how many words there are, how long one is, or its end.
func (c *conn) line(p []byte) (int, error) {
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || len(line) > len(p) {
		return 0, errProtocol
	}
	if err != nil {
		return 0, err
	}
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	switch {
	case !ok:
		return 0, errProtocol
	case c.inWord:
		c.inWord = false
		c.read++
		if len(text) > 0 {
			return 0, errProtocol
		}
	case c.words == 0:
		if c.words, ok = length(text, '*', maxWords); !ok || c.words == 0 {
			return 0, errProtocol
		}
	default:
		if c.left, ok = length(text, '$', maxScript-c.size); !ok {
			return 0, errProtocol
		}
		c.inWord = true
		if c.size += c.left; c.size > maxCommand && !c.isLarge {
			if !isScript(c.begin[0]) || !c.scripts(c.begin[1]) {
				return 0, errProtocol
			}
			c.large <- struct{}{} // those before it have commandTime
			c.isLarge = true
			if err := c.SetReadDeadline(time.Now().Add(commandTime)); err != nil {
				return 0, err
			}
		}
	}
	return copy(p, line), nil
}

// endLarge lets another connection send a long command.
func (c *conn) endLarge() {
	if c.isLarge {
		<-c.large
	}
	c.isLarge = false
}

// length is what a line announces: kind, and a number of at most most.
func length(line []byte, kind byte, most int) (int, bool) {
	if len(line) < 2 || line[0] != kind {
		return 0, false
	}
	n, err := strconv.ParseUint(string(line[1:]), 10, 31)
	return int(n), err == nil && int(n) <= most
}

func isScript(cmd string) bool {
	return strings.EqualFold(cmd, "EVAL") || strings.EqualFold(cmd, "EVALSHA")
}

// Write gives up on a client that reads nothing, or too slowly: while it is waited for, miniredis
// holds its lock, and notifications wait.
func (c *conn) Write(p []byte) (int, error) {
	began, due := time.Now(), time.Duration(len(p))*time.Second/slowest
	if err := c.SetWriteDeadline(began.Add(due + time.Duration(c.patience.Load()))); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if err != nil {
		_ = c.Conn.Close()
	}
	c.patience.Add(-int64(max(0, time.Since(began)-due)))
	return n, err
}

// Close releases the connection's place.
func (c *conn) Close() error {
	c.release()
	return c.Conn.Close()
}
