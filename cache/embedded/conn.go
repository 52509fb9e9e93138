package embedded

import (
	"bufio"
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
	maxWords    = 1 << 10
	maxCommand  = 64 << 10  // bytes of a command
	maxScript   = 128 << 20 // bytes of a script of vitrine's with its arguments: a document is one
	commandTime = 10 * time.Second
	writeTime   = time.Second // for a client that does not read, by command
	slowest     = 8 << 20     // bytes per second that a client reads at least, besides
)

// errProtocol ends a connection.
var errProtocol = errors.New("protocol error")

// A conn is a connection from which commands are read within the bounds: miniredis itself would trust
// lengths and allocate what they announce. Of all connections one at a time may send a command longer
// than maxCommand, and only a script of vitrine's.
type conn struct {
	net.Conn
	in      *bufio.Reader
	scripts func(script string) bool
	large   chan struct{} // room for the one
	isLarge bool

	patience atomic.Int64 // what is left of writeTime, in nanoseconds
}

// wait has the next command take as long as it likes to begin; the first has commandTime, since a
// place is for those who have something to say.
func (c *conn) wait() error {
	if c.in.Buffered() > 0 {
		return nil
	}
	return c.SetReadDeadline(time.Time{})
}

// command reads a command. A long one keeps its room until the next.
func (c *conn) command() (words []string, err error) {
	c.endLarge()
	c.patience.Store(int64(writeTime))
	if _, err := c.in.Peek(1); err != nil {
		return nil, err
	}
	if err := c.SetReadDeadline(time.Now().Add(commandTime)); err != nil {
		return nil, err
	}
	count, err := c.length('*', maxWords)
	if err == nil && count == 0 {
		err = errProtocol
	}
	for size := 0; err == nil && len(words) < count; {
		var n int
		if n, err = c.length('$', maxScript-size); err != nil {
			break
		}
		if size += n; size > maxCommand {
			err = c.beginLarge(words)
		}
		if err == nil {
			words, err = c.word(words, n)
		}
	}
	return words, err
}

// word reads a word of so many bytes, in memory that grows with what comes.
func (c *conn) word(words []string, n int) ([]string, error) {
	var word strings.Builder
	if _, err := io.CopyN(&word, c.in, int64(n)); err != nil {
		return nil, err
	}
	var end [2]byte
	if _, err := io.ReadFull(c.in, end[:]); err != nil {
		return nil, err
	}
	if string(end[:]) != "\r\n" {
		return nil, errProtocol
	}
	return append(words, word.String()), nil
}

// length reads a line that announces so many of a kind, most at most.
func (c *conn) length(kind byte, most int) (int, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return 0, err
	}
	text, ok := strings.CutSuffix(string(line), "\r\n")
	if !ok || len(text) < 2 || text[0] != kind {
		return 0, errProtocol
	}
	n, err := strconv.ParseUint(text[1:], 10, 31)
	if err != nil || int(n) > most {
		return 0, errProtocol
	}
	return int(n), nil
}

// beginLarge waits until no other connection sends a long command, for one with these first words.
func (c *conn) beginLarge(first []string) error {
	switch {
	case c.isLarge:
		return nil
	case len(first) < 2 || !isScript(first[0]) || !c.scripts(first[1]):
		return errProtocol
	}
	c.large <- struct{}{} // those before it have commandTime
	c.isLarge = true
	return c.SetReadDeadline(time.Now().Add(commandTime))
}

// endLarge lets another connection send a long command.
func (c *conn) endLarge() {
	if c.isLarge {
		<-c.large
	}
	c.isLarge = false
}

func isScript(cmd string) bool {
	return strings.EqualFold(cmd, "EVAL") || strings.EqualFold(cmd, "EVALSHA")
}

// Write gives up on a client that reads nothing, or too slowly.
func (c *conn) Write(p []byte) (int, error) {
	began, due := time.Now(), time.Duration(len(p))*time.Second/slowest
	if err := c.SetWriteDeadline(began.Add(due + time.Duration(c.patience.Load()))); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if err != nil {
		_ = c.Close()
	}
	c.patience.Add(-int64(max(0, time.Since(began)-due)))
	return n, err
}
