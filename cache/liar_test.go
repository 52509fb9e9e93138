package cache

import (
	"net"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// TestAServerThatAnswersByteByByteIsAway has an announced document come a byte every ten
// milliseconds, without end.
func TestAServerThatAnswersByteByByteIsAway(t *testing.T) {
	t.Parallel()
	src := newSource()
	store := openStore(t, "redis://"+liar(t, []byte("*16\r\n$1000000\r\n"), 10*time.Millisecond))
	r, err := NewReader(store, "banners", options(src))
	must(t, err)
	for range 3 {
		elapsed := testkit.Stopwatch(t)
		a := get(t, r)
		if took := elapsed(); a.Value != 1 || took > 5*time.Second {
			t.Fatalf("%+v after %v", a, took)
		}
	}
}

// liar answers with lie, but to what a connection begins with, and then with a byte in every pause,
// unless that is 0. It returns its address.
func liar(t *testing.T, lie []byte, pause time.Duration) string {
	return testkit.Accept(t, func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(testkit.Patience))
		for read := make([]byte, 4<<10); ; {
			n, err := c.Read(read)
			if err != nil {
				return
			}
			answer := lie
			for cmd, truth := range map[string]string{"info": "$2\r\n\r\n\r\n", "hello": "%1\r\n+server\r\n+redis\r\n", "client": "+OK\r\n"} {
				if strings.Contains(strings.ToLower(string(read[:n])), "\r\n"+cmd+"\r\n") {
					answer = []byte(truth)
				}
			}
			_, err = c.Write(answer)
			for pause > 0 && err == nil && len(answer) == len(lie) {
				<-time.After(pause)
				_, err = c.Write([]byte("x"))
			}
			if err != nil {
				return
			}
		}
	})
}
