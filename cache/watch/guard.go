package watch

import (
	"bytes"
	"errors"
	"strconv"
)

// The most that a reply can have. go-redis allocates what a length announces before the bytes come,
// and reads a reply in a reply by recursion: without bounds, 20 bytes of a server that is not Redis
// would end the process.
const (
	maxReply  = 512 << 20 // bytes, which is Redis's own bound of a value
	maxLine   = 4 << 10   // bytes of a length, a number, a status or an error, which is logged
	maxValues = 64 << 10  // of a list or a map
	maxLevels = 16
	valueCost = 64 // bytes by which each value counts besides its own
)

var errReply = errors.New("not a reply of Redis: empty, or longer or deeper than any")

// A guard follows the replies on a connection (RESP 3), and finds the first one beyond the bounds
// before go-redis reads that.
type guard struct {
	line []byte // the beginning of a line whose end has not come
	skip int    // bytes left of a string, and of the end of its line
	left []int  // values left, by level
	size int    // of the present reply
}

// check is called with everything that is read.
func (g *guard) check(b []byte) error {
	for len(b) > 0 {
		if g.skip > 0 {
			n := min(g.skip, len(b))
			if b, g.skip = b[n:], g.skip-n; g.skip == 0 {
				g.ended()
			}
			continue
		}
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if len(g.line)+len(line) > maxLine {
			return errReply
		}
		g.line, b = append(g.line, line...), rest
		if !whole {
			return nil
		}
		if err := g.begin(bytes.TrimSuffix(g.line, []byte("\r"))); err != nil {
			return err
		}
		g.line = g.line[:0]
	}
	return nil
}

// begin follows the line with which a value begins.
func (g *guard) begin(line []byte) error {
	if g.size += len(line) + valueCost; g.size > maxReply || len(line) == 0 {
		return errReply
	}
	n, err := strconv.Atoi(string(line[1:]))
	switch kind := line[0]; kind {
	case '$', '=', '!':
		if err != nil || n > maxReply-g.size {
			return errReply
		}
		if n >= 0 {
			g.size += n
			g.skip = n + len("\r\n")
			return nil
		}
	case '*', '~', '>', '%', '|':
		if err != nil || n > maxValues || len(g.left) == maxLevels || n < 0 && kind == '|' {
			return errReply
		}
		if kind == '%' || kind == '|' {
			n *= 2
		}
		if kind == '|' { // attributes of the value that follows
			n++
		}
		if n > 0 {
			g.left = append(g.left, n)
			return nil
		}
	}
	g.ended()
	return nil
}

// ended follows the end of a value, which may be the last of those that it is in.
func (g *guard) ended() {
	for last := len(g.left) - 1; last >= 0; last-- {
		if g.left[last]--; g.left[last] > 0 {
			return
		}
		g.left = g.left[:last]
	}
	g.size = 0
}
