package embedded

import (
	"bufio"
	"bytes"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The bounds of one connection.
const (
	maxWords     = 1 << 14
	maxCommand   = 128 << 20       // bytes of a command; a document with its fields is one
	maxStranger  = 4 << 10         // bytes of a command before authentication
	strangerTime = 5 * time.Second // time limit for authentication
	writeTimeout = time.Second     // for a client that does not read, by command
	slowest      = 8 << 20         // bytes per second that a client reads at least, besides
)

// errProtocol ends a connection.
var errProtocol = errors.New("protocol error")

// A conn is a connection from which miniredis reads only whole commands within the bounds, since it
// trusts lengths and allocates what they announce. Memory grows with the bytes received.
type conn struct {
	net.Conn
	in       *bufio.Reader
	command  bytes.Buffer  // read from the client, not yet by miniredis
	password string        // required password; "" after authentication, or if none is needed
	pending  *atomic.Int64 // bytes of commands, of all connections
	held     int64         // this connection's
	patience atomic.Int64  // what is left of writeTimeout, in nanoseconds
	release  func()
}

func newConn(c net.Conn, password string, pending *atomic.Int64, release func()) (*conn, error) {
	var err error
	if password != "" {
		err = c.SetReadDeadline(time.Now().Add(strangerTime))
	}
	return &conn{Conn: c, in: bufio.NewReader(c), password: password, pending: pending, release: release}, err
}

// Read reads the next command, or the rest of it.
func (c *conn) Read(p []byte) (int, error) {
	if c.command.Len() == 0 {
		c.dropHeld()
		if c.command.Cap() > 64<<10 {
			c.command = bytes.Buffer{} // it held a document
		}
		err := c.next()
		c.patience.Store(int64(writeTimeout))
		if err != nil {
			c.dropHeld()
			if errors.Is(err, errProtocol) {
				_, _ = c.Write([]byte("-ERR Protocol error: want an array of bulk strings, within the bounds of the embedded store\r\n"))
			}
			return 0, err
		}
	}
	return c.command.Read(p)
}

// next reads a whole command: *N, then N times $LENGTH and as many bytes.
func (c *conn) next() error {
	most := maxCommand
	if c.password != "" {
		most = maxStranger
	}
	n, err := c.length('*', maxWords)
	if err != nil {
		return err
	}
	if n == 0 {
		return errProtocol
	}
	var words []string // the first few, before authentication
	for range n {
		length, err := c.length('$', most-c.command.Len())
		if err != nil {
			return err
		}
		begin := c.command.Len()
		if err := c.receive(int64(length) + 2); err != nil {
			return err
		}
		word, ok := bytes.CutSuffix(c.command.Bytes()[begin:], []byte("\r\n"))
		if !ok {
			return errProtocol
		}
		if c.password != "" {
			words = append(words, string(word))
		}
	}
	if c.password != "" && shows(words, c.password) {
		c.password = ""
		return c.SetReadDeadline(time.Time{})
	}
	return nil
}

// dropHeld makes room for other commands.
func (c *conn) dropHeld() {
	c.pending.Add(-c.held)
	c.held = 0
}

// receive reads n bytes, and counts those that have come.
func (c *conn) receive(n int64) error {
	for n > 0 {
		got, err := io.CopyN(&c.command, c.in, min(n, 64<<10))
		c.held += got
		if c.pending.Add(got) > maxPending {
			return errProtocol
		}
		if err != nil {
			return err
		}
		n -= got
	}
	return nil
}

// length reads a line with a length of at most most, and passes it on.
func (c *conn) length(kind byte, most int) (int, error) {
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return 0, errProtocol
	}
	if err != nil {
		return 0, err
	}
	digits, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || len(digits) < 2 || digits[0] != kind {
		return 0, errProtocol
	}
	n, err := strconv.ParseUint(string(digits[1:]), 10, 31)
	if err != nil || int(n) > most {
		return 0, errProtocol
	}
	c.command.Write(line)
	return int(n), nil
}

// shows reports whether a command is AUTH [USER] PASSWORD, or a HELLO with one, with the right
// password. Miniredis checks it again; here it lifts the bounds before authentication.
func shows(words []string, password string) bool {
	for i, word := range words {
		if strings.EqualFold(word, "AUTH") && i+1 < len(words) && (i == 0 || strings.EqualFold(words[0], "HELLO")) {
			given := words[min(i+2, len(words)-1)]
			return subtle.ConstantTimeCompare([]byte(given), []byte(password)) == 1
		}
	}
	return false
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

// Close releases the connection's slot.
func (c *conn) Close() error {
	c.release()
	return c.Conn.Close()
}
