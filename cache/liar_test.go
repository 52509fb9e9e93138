package cache

import (
	"net"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// TestAServerThatIsNotRedisEndsNothing has a server that answers with the same lie to every command
// after the first ones of a connection. A reader goes on as without Redis.
func TestAServerThatIsNotRedisEndsNothing(t *testing.T) {
	for name, lie := range map[string]string{
		"a length beyond memory":         "$99999999999\r\n",
		"a length beyond an integer":     "$9223372036854775800\r\n",
		"a list beyond memory":           "*99999999999\r\n",
		"a map beyond memory":            "%99999999999\r\n",
		"an error beyond memory":         "!99999999999\r\n",
		"a push beyond memory":           ">99999999999\r\n$10\r\ninvalidate\r\n",
		"lists in lists":                 strings.Repeat("*1\r\n", 20_000_000),
		"attributes of attributes":       strings.Repeat("|0\r\n", 20_000_000),
		"attributes that are nothing":    strings.Repeat("|-1\r\n", 20_000_000),
		"lists of lists":                 strings.Repeat("*65536\r\n", 1_000_000),
		"a number of millions of digits": "(" + strings.Repeat("9", 30_000_000) + "\r\n",
		"a line without an end":          "+" + strings.Repeat("x", 30_000_000),
		"wrong types":                    "%1\r\n*0\r\n:1\r\n",
		"HTTP":                           "HTTP/1.1 400 Bad Request\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			src := newSource()
			store := openStore(t, "redis://"+liar(t, []byte(lie), 0))
			r, err := NewReader(store, "banners", options(src))
			must(t, err)
			for range 3 {
				if a := get(t, r); a.Value != 1 {
					t.Fatalf("%+v", a)
				}
			}
		})
	}
}

// TestAServerThatAnswersByteByByteIsAway has an announced document come a byte every ten
// milliseconds, without end.
func TestAServerThatAnswersByteByByteIsAway(t *testing.T) {
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
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
			}()
		}
	}()
	return listener.Addr().String()
}
