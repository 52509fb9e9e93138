package reply_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"vitrine/cache/reply"
)

// A server is a connection from which what it says can be read.
type server struct {
	net.Conn
	says   io.Reader
	closed bool
}

func (s *server) Write(p []byte) (int, error)      { return len(p), nil }
func (s *server) SetDeadline(time.Time) error      { return nil }
func (s *server) SetReadDeadline(time.Time) error  { return nil }
func (s *server) SetWriteDeadline(time.Time) error { return nil }
func (s *server) RemoteAddr() net.Addr             { return nil }
func (s *server) Read(p []byte) (int, error)       { return s.says.Read(p) }
func (s *server) Close() error                     { s.closed = true; return nil }

const mostBulk = 64 << 20

// endless repeats what it is.
type endless string

func (e endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

func TestEveryReplyOfRedisIsRead(t *testing.T) {
	t.Parallel()
	for _, says := range []string{
		"+OK\r\n", "-ERR no\r\n", ":-1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(12345678901234567890\r\n",
		"$-1\r\n", "$0\r\n\r\n", "$5\r\na\nb\r\n\r\n", "=7\r\ntxt:a\r\n\r\n", "!5\r\nERR x\r\n", "*-1\r\n", "*0\r\n", "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
		"%1\r\n+server\r\n+redis\r\n", "~1\r\n:1\r\n",
		strings.Repeat("*1\r\n", 8) + ":1\r\n", "*300000\r\n" + strings.Repeat(":1\r\n", 300_000),
		"$3000000\r\n" + strings.Repeat("\n", 3_000_000) + "\r\n", "+" + strings.Repeat("x", 60<<10) + "\r\n",
	} {
		from := []io.Reader{strings.NewReader(says + says)}
		if len(says) < 1000 { // cut anywhere
			from = append(from, iotest.OneByteReader(strings.NewReader(says+says)))
		}
		for _, from := range from {
			got, err := io.ReadAll(reply.Bound(t.Context(), &server{says: from}, mostBulk))
			if err != nil || string(got) != says+says {
				t.Errorf("%.40q: %v after %d of %d bytes", says, err, len(got), 2*len(says))
			}
		}
	}
}

func TestWhatExceedsTheBoundsEndsTheConnection(t *testing.T) {
	t.Parallel()
	for what, says := range map[string]io.Reader{
		"a bulk of 2^63":          strings.NewReader("$9223372036854775807\r\n"),
		"a bulk of 2^40":          strings.NewReader("$1099511627776\r\n"),
		"an error of 2^35":        strings.NewReader("!34359738368\r\n"),
		"an array of 2^36":        strings.NewReader("*68719476736\r\n"),
		"a map of 2^62":           strings.NewReader("%4611686018427387904\r\n"),
		"a length in many digits": strings.NewReader("$" + strings.Repeat("0", 23) + "9223372036854775807\r\n"),
		"an attribute":            strings.NewReader("|1\r\n+ttl\r\n:1\r\n+OK\r\n"),
		"a number that is none":   strings.NewReader("$1e9\r\n"),
		"less than null":          strings.NewReader("*-2\r\n"),
		"an empty line":           strings.NewReader("\r\n"),
		"HTTP":                    strings.NewReader("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"a line without end":      io.MultiReader(strings.NewReader("+"), endless("x")),
		"a length without end":    io.MultiReader(strings.NewReader("*"), endless("1")),
		"arrays without end":      endless("*1\r\n"),
		"a push":                  strings.NewReader(">2\r\n+x\r\n+y\r\n"),
		"arrays with more in all": io.MultiReader(strings.NewReader("*1000000\r\n*50000\r\n"), endless(":1\r\n")),
		"a line of 70 KB":         strings.NewReader("+" + strings.Repeat("x", 70_000) + "\r\n"),
		"arrays nine deep":        strings.NewReader(strings.Repeat("*1\r\n", 9) + ":1\r\n"),
		"two bulks of 60 MB": io.MultiReader(strings.NewReader("*2\r\n$60000000\r\n"), io.LimitReader(endless(strings.Repeat("x", 64<<10)), 60_000_002),
			strings.NewReader("$60000000\r\n"), io.LimitReader(endless(strings.Repeat("x", 64<<10)), 60_000_002)),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := &server{says: says}
			n, err := io.Copy(io.Discard, reply.Bound(t.Context(), s, mostBulk))
			if !errors.Is(err, reply.ErrBounds) || !s.closed || n > 81<<20 {
				t.Errorf("%v after %d bytes, closed: %t", err, n, s.closed)
			}
		})
	}
}

// TestAPanicOfAClientIsAFailedCall: it indexes and asserts what a server sends.
func TestAPanicOfAClientIsAFailedCall(t *testing.T) {
	var empty []any
	if err := reply.Recover(func() error { return empty[0].(error) }); err == nil || !strings.Contains(err.Error(), "panic over a reply") {
		t.Error(err)
	}
	want := errors.New("no")
	if err := reply.Recover(func() error { return want }); !errors.Is(err, want) {
		t.Error(err)
	}
}
