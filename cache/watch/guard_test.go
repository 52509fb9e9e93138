package watch

import (
	"errors"
	"strings"
	"testing"
)

// FuzzGuard: a reply passes or not however it is cut into pieces, what passes is not deeper than the
// bound, and a whole reply leaves nothing behind.
func FuzzGuard(f *testing.F) {
	for _, s := range []string{
		"+OK\r\n", "$3\r\nabc\r\n", "$-1\r\n", "*2\r\n:1\r\n*1\r\n$0\r\n\r\n", ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n",
		"%1\r\n+a\r\n_\r\n", "|1\r\n+a\r\n+b\r\n:1\r\n", "=5\r\ntxt:a\r\n", "!3\r\nERR\r\n", "(123\r\n", "$99999999999\r\n", "*65537\r\n", "|-1\r\n",
		"$536870913\r\n", "*\r\n", "$ 1\r\n", "\r\n", strings.Repeat("*1\r\n", 17),
	} {
		f.Add([]byte(s), uint8(1))
	}
	f.Fuzz(func(t *testing.T, reply []byte, piece uint8) {
		var whole, pieces guard
		want := whole.check(reply)
		var got error
		for rest := reply; got == nil && len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			got, rest = pieces.check(rest[:n]), rest[n:]
		}
		if (want == nil) != (got == nil) {
			t.Fatalf("%v, and in pieces %v", want, got)
		}
		if len(whole.left) > maxLevels {
			t.Fatalf("%d levels", len(whole.left))
		}
		if want == nil && len(whole.left) == 0 && whole.skip == 0 && len(whole.line) == 0 && whole.size > 2*valueCost+len(reply) {
			t.Fatalf("%d bytes are left", whole.size)
		}
	})
}

// TestALongErrorIsNotAReply, since the texts of errors are logged.
func TestALongErrorIsNotAReply(t *testing.T) {
	for length, want := range map[int]error{1 << 10: nil, 60 << 10: errReply} {
		if err := new(guard).check([]byte("-ERR " + strings.Repeat("x", length) + "\r\n")); !errors.Is(err, want) {
			t.Errorf("an error of %d bytes: %v, want %v", length, err, want)
		}
	}
}
