package embedded

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestOneClientDoesNotHoldUpTheOthers has clients that do what takes longest, one after the other,
// while another one is answered.
func TestOneClientDoesNotHoldUpTheOthers(t *testing.T) {
	names := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("vitrine:%d", i))
		}
		return all
	}
	for name, attack := range map[string]func(t *testing.T, s *Store, c net.Conn){
		"reads an answer slowly": func(t *testing.T, _ *Store, c net.Conn) {
			write(t, c, "SET", "long", strings.Repeat("x", 16<<20))
			_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
			write(t, c, "GET", "long")
			go func() {
				for read := make([]byte, 2<<10); ; <-time.After(200 * time.Millisecond) {
					if _, err := c.Read(read); err != nil {
						return
					}
				}
			}()
		},
		"removes many keys that are tracked": func(t *testing.T, s *Store, c net.Conn) {
			tracker := dial(t, s)
			write(t, tracker, "HELLO", "3")
			write(t, tracker, "CLIENT", "TRACKING", "ON", "BCAST")
			go func() { _, _ = io.Copy(io.Discard, tracker) }()
			write(t, c, append([]string{"DEL"}, names(maxWords-1)...)...)
		},
		"has many keys": func(t *testing.T, _ *Store, c net.Conn) {
			in, stored := bufio.NewReader(c), "+OK\r\n"
			for i := 0; stored == "+OK\r\n" && i < 300_000; {
				words := []string{"MSET"}
				for range maxWords / 4 {
					words = append(words, strings.Repeat("x", 50)+fmt.Sprint(i), "")
					i++
				}
				write(t, c, words...)
				stored, _ = in.ReadString('\n')
			}
		},
		"asks for keys by a pattern": func(t *testing.T, _ *Store, c net.Conn) {
			write(t, c, "SET", strings.Repeat("a", 4<<20), "")
			for range 20 {
				write(t, c, "KEYS", strings.Repeat("*a", 1000)+"b")
			}
		},
		"has a pattern compiled": func(t *testing.T, _ *Store, c net.Conn) {
			write(t, c, "SET", "a", "")
			write(t, c, "KEYS", strings.Repeat("[ab]", 4<<20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, "127.0.0.1:0")
			attack(t, s, dial(t, s))
			<-time.After(100 * time.Millisecond)
			other := dial(t, s)
			in := bufio.NewReader(other)
			longest, answers := time.Duration(0), 0
			for begin := time.Now(); time.Since(begin) < 2*time.Second || answers < 50 && time.Since(begin) < 10*time.Second; <-time.After(time.Millisecond) {
				asked := time.Now()
				write(t, other, "HGET", "x", "y")
				if line, err := in.ReadString('\n'); err != nil || line != "$-1\r\n" {
					t.Fatalf("%q, %v", line, err)
				}
				longest = max(longest, time.Since(asked))
				answers++
			}
			if t.Logf("%d answers, after %v at most", answers, longest); longest > 4*time.Second || answers < 50 && name == "has many keys" {
				t.Error("it was held up")
			}
		})
	}
}
