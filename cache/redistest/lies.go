package redistest

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"time"
)

// A Lie is what a server answers: a text, and then another one again and again.
type Lie struct{ First, More string }

// lieRate is how many bytes a second a liar sends: more than a slow link.
const lieRate = 3 << 20

// Lies are replies that go on, each within the bounds of one, or as pushes.
var Lies = map[string]Lie{
	"a bulk":                 {"$536870912\r\n", strings.Repeat("x", 30<<10)},
	"a short bulk":           {"$16000000\r\n", strings.Repeat("x", 30<<10)},
	"a field":                {"*2\r\n$4\r\nbody\r\n$16000000\r\n", strings.Repeat("x", 30<<10)},
	"an array":               {"*1000000\r\n", strings.Repeat("$1\r\nx\r\n", 4<<10)},
	"arrays":                 {"*2\r\n", strings.Repeat("*2\r\n:1\r\n:1\r\n", 4<<10)},
	"invalidations":          {"", strings.Repeat(">2\r\n$10\r\ninvalidate\r\n*1\r\n$15\r\nvitrine:banners\r\n", 600)},
	"pushes of unknown kind": {"", strings.Repeat(">2\r\n+x\r\n+x\r\n", 2<<10)},
	"errors":                 {"", strings.Repeat("-ERR no\r\n", 4<<10)},
	"OK":                     {"", strings.Repeat("+OK\r\n", 6<<10)},
	"numbers":                {"", strings.Repeat(":68719476736\r\n", 2<<10)},
	"no RESP":                {"HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 30<<10)},
	"a byte at a time":       {"$16000000\r\n", "x"},
	"nothing":                {},
}

// tell sends it until the client or ctx ends.
func (l *Lie) tell(ctx context.Context, client net.Conn) {
	pause := max(time.Duration(len(l.More))*time.Second/lieRate, 5*time.Millisecond)
	_, err := io.WriteString(client, l.First)
	for err == nil && ctx.Err() == nil {
		<-time.After(pause)
		_, err = io.WriteString(client, l.More)
	}
}

// greeting reports whether a connection begins with data. Polls have HELLO, too.
func greeting(data []byte) bool { return bytes.Contains(bytes.ToLower(data), []byte("hello")) }
