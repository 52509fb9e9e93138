package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
)

const own = "return redis.call('PING')"

func newStore(t *testing.T, address string) *Store {
	t.Helper()
	s, err := Start(address, nil)
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	s.commands.scripts = func(text string) bool { return text == own }
	return s
}

// dial connects.
func dial(t *testing.T, s *Store) net.Conn { return testkit.Dial(t, "tcp", s.Addr()) }

// alive fails unless a newcomer is served.
func alive(t *testing.T, s *Store) {
	t.Helper()
	client := clientOf(t, s)
	defer client.Close()
	if err := client.HSet(t.Context(), "vitrine:x", "a", "b").Err(); err != nil {
		t.Fatalf("the store does not serve any more: %v", err)
	}
}

func clientOf(t *testing.T, s *Store) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: 15 * time.Second})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// None of these may end the process, nor reserve memory for bytes that do not come.
func TestWhatIsNotACommandEndsItsConnectionAlone(t *testing.T) {
	s := newStore(t, "127.0.0.1:0")
	for _, garbage := range []string{
		"*0\r\n", "*-1\r\n", "*1\r\n$-1\r\n", "*1\r\n$9223372036854775800\r\n", "*2\r\n$4\r\nPING\r\n$99999999999\r\n",
		"*99999999999\r\n$1\r\n", "*9223372036854775807\r\n", "*1\r\n:1\r\n", "*1\r\n+PING\r\n", "$4\r\nPING\r\n", "PING\r\n", "\r\n", "\n",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "*" + strings.Repeat("1", 100_000), "*1\r\n$" + strings.Repeat("0", 100_000), "*1\r\n$4\r\nPINGxx\r\n",
		"*+1\r\n$4\r\nPING\r\n", "*1\n$4\nPING\n", "\x16\x03\x01\x02\x00\n", "*1000000\r\n",
		"*3\r\n$7\r\nEVALSHA\r\n$1\r\na\r\n$100000000\r\n", "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$100000\r\n",
	} {
		conn := dial(t, s)
		_, err := io.WriteString(conn, garbage)
		answer := make([]byte, len("-ERR Protocol error"))
		if err == nil {
			_, err = io.ReadFull(conn, answer)
		}
		// The system may take the answer back from somebody who is still sending.
		if string(answer) != "-ERR Protocol error" && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Errorf("%.40q is answered with %q, %v", garbage, answer, err)
		}
		alive(t, s)
	}
}

// A client may not have the process compute or allocate without end. None of these is needed to
// look in or to purge.
func TestCommandsThatVitrineDoesNotNeedAreUnknown(t *testing.T) {
	s := newStore(t, "127.0.0.1:0")
	for _, command := range [][]string{
		{"EVAL", "while true do end", "0"}, {"EVAL_RO", "while true do end", "0"}, {"SCRIPT", "LOAD", "while true do end"},
		{"EVAL", "return string.rep('x', 1e12)", "0"}, {"SETRANGE", "k", "99999999999", "x"}, {"SETBIT", "k", "4294967295", "1"},
		{"HRANDFIELD", "vitrine:x", "-99999999999"}, {"SRANDMEMBER", "s", "-99999999999"}, {"SHUTDOWN"}, {"DEBUG", "SLEEP", "100"},
		{"EVALSHA", "0000000000000000000000000000000000000000", "0"}, {"XADD", "s", "*", "a", "b"}, {"BLPOP", "l", "0"}, {""},
	} {
		conn := dial(t, s)
		write(t, conn, command...)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "-") {
			t.Errorf("%q: %q, %v", command, line, err)
		}
	}
	conn := dial(t, s)
	write(t, conn, "EVAL", own, "0")
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "+PONG\r\n" {
		t.Errorf("a script of vitrine's own: %q, %v", line, err)
	}
	alive(t, s)
}

func write(t *testing.T, w io.Writer, words ...string) {
	t.Helper()
	text := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		text = fmt.Appendf(text, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
}

func TestAPanicIsOneFailedCommand(t *testing.T) {
	s := newStore(t, "127.0.0.1:0")
	memory := s.commands.memory
	s.commands.memory = nil // as a fault would
	conn := dial(t, s)
	in := bufio.NewReader(conn)
	write(t, conn, "SET", "x", "y")
	if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "-ERR internal error") {
		t.Errorf("%q, %v", line, err)
	}
	write(t, conn, "PING")
	if line, err := in.ReadString('\n'); err != nil || line != "+PONG\r\n" {
		t.Errorf("on the same connection: %q, %v", line, err)
	}
	s.commands.memory = memory
	alive(t, s)
}

func TestTheStoreIsOnLoopbackAlone(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "localhost:0", "a-password@127.0.0.1:0", "127.0.0.1", "65536", "-1"} {
		if s, err := Start(address, nil); err == nil || !strings.Contains(err.Error(), "want embedded:, embedded:PORT or embedded:127.0.0.1:PORT") {
			if err == nil {
				s.Close()
			}
			t.Errorf("%s: %v", address, err)
		}
	}
	alive(t, newStore(t, "0"))
	for address, want := range map[string]string{"": "redis://127.0.0.1:6380", "7000": "redis://127.0.0.1:7000", "127.0.0.1:7000": "redis://127.0.0.1:7000"} {
		if got := URL(address); got != want {
			t.Errorf("%q: %s, want %s", address, got, want)
		}
	}
}

// TestHostileBytesEndNothing sends what is no protocol, and opens more connections than there are places
// for, most of them silent after half a command.
func TestHostileBytesEndNothing(t *testing.T) {
	s := newStore(t, "127.0.0.1:0")
	client := clientOf(t, s)
	testkit.Must(t, client.HSet(t.Context(), "vitrine:x", "a", "b").Err())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	chance := rand.New(rand.NewPCG(1, 0))
	for range 500 {
		conn := dial(t, s).(*net.TCPConn)
		_, err := conn.Write(redistest.Hostile(chance))
		if err == nil && chance.IntN(2) == 0 && conn.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
		_ = conn.Close()
	}
	connections := 300
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur < 1024 {
		connections = 40 // each takes two
	}
	for range connections {
		_, _ = io.WriteString(dial(t, s), "*3\r\n$4\r\nHSET\r\n$60000\r\nx")
	}
	runtime.ReadMemStats(&after)
	testkit.Check(t, client.HGet(t.Context(), "vitrine:x", "a").Err()) // on its connection
	if took := int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse); took > 64<<20 {
		t.Errorf("it took %d MB", took>>20)
	}
}

// TestAFullStoreIsReadAndPurged has one without room for a document, and then without any.
func TestAFullStoreIsReadAndPurged(t *testing.T) {
	s := newStore(t, "127.0.0.1:0")
	full := s.commands
	full.scripts, full.memory.most = func(string) bool { return true }, 1<<20
	client, document := clientOf(t, s), strings.Repeat("x", maxCommand/2)
	script := func(text, arg string) func() error {
		return func() error { return client.Eval(t.Context(), text, []string{"vitrine:banners"}, arg).Err() }
	}
	do := func(words ...any) func() error {
		return func() error {
			if err := client.Do(t.Context(), words...).Err(); !errors.Is(err, redis.Nil) {
				return err
			}
			return nil
		}
	}
	store := script("return redis.call('HSET', KEYS[1], 'body', ARGV[1], 'fresh_until', '1')", document)
	testkit.Must(t, store())
	for i := 0; do("SET", i, document)() == nil; i++ {
		if size := full.memory.count(); size > 2<<20 {
			t.Fatalf("%d bytes are stored", size)
		}
	}
	try := func(refused bool, what map[string]func() error) {
		t.Helper()
		for name, try := range what {
			if err := try(); (err != nil) != refused || refused && !strings.Contains(err.Error(), "OOM") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	release := script("redis.call('HDEL', KEYS[1], 'lease') return redis.call('HSET', KEYS[1], 'failed', ARGV[1])", "token")
	try(true, map[string]func() error{"a document": store, "a long name": do("HSET", document, "x", "y")})
	try(false, map[string]func() error{"a release": release, "a soft purge": do("HSET", "vitrine:banners", "fresh_until", "0")})
	full.memory.most = -1 << 30
	try(true, map[string]func() error{"a mark": do("HSET", "x", "y", "z")})
	try(false, map[string]func() error{
		"a read": do("HGETALL", "vitrine:banners"), "a release": release, "EXPIRE": do("EXPIRE", "1", "0"), "UNLINK": do("UNLINK", "2"),
		"by script": script("return redis.call('DEL', '3')", ""), "DEL": do("DEL", "vitrine:banners"),
	})
	full.memory.most = 1 << 20
	testkit.Check(t, do("FLUSHALL")())
	testkit.Eventually(t, "there is room again", func() bool { return store() == nil })
}

// TestAKeyExpiresAtItsTime by the clock that TIME shows, whenever it was set.
func TestAKeyExpiresAtItsTime(t *testing.T) {
	client := clientOf(t, newStore(t, "127.0.0.1:0"))
	now := func() int64 { return client.Time(t.Context()).Val().UnixMilli() }
	for n := range 20 {
		testkit.Must(t, client.Set(t.Context(), "x", n, 0).Err())
		until := now() + 20 + int64(n)
		testkit.Must(t, client.Do(t.Context(), "PEXPIREAT", "x", until).Err())
		for gone := false; !gone; {
			before := now()
			gone = client.Exists(t.Context(), "x").Val() == 0
			if after := now(); gone && after < until || !gone && before >= until {
				t.Fatalf("key %d, which expires at %d: gone is %v between %d and %d", n, until, gone, before, after)
			}
		}
	}
}

// TestNothingIsRunWhileTheStoreCloses has clients that go on sending meanwhile.
func TestNothingIsRunWhileTheStoreCloses(t *testing.T) {
	var log testkit.Buffer
	s, err := Start("127.0.0.1:0", slog.New(slog.NewTextHandler(&log, nil)))
	testkit.Must(t, err)
	var all sync.WaitGroup
	for range 20 {
		conn := dial(t, s)
		write(t, conn, "HELLO", "3")
		all.Go(func() {
			for err := error(nil); err == nil; {
				_, err = io.WriteString(conn, strings.Repeat("*2\r\n$4\r\nKEYS\r\n$1\r\n*\r\n", 100))
			}
		})
		all.Go(func() { _, _ = io.Copy(io.Discard, conn) })
	}
	<-time.After(50 * time.Millisecond)
	s.Close()
	all.Wait()
	if said := log.String(); said != "" {
		t.Errorf("%.500s", said)
	}
}

// TestTheWritesOfACommandShareItsTime has a client that takes each of them up within it.
func TestTheWritesOfACommandShareItsTime(t *testing.T) {
	server, client := net.Pipe()
	var reading sync.WaitGroup
	reading.Go(func() {
		for err := error(nil); err == nil; {
			<-time.After(writeTime / 3)
			_, err = client.Read(make([]byte, 1))
		}
	})
	defer reading.Wait()
	defer client.Close()
	c := &conn{Conn: server}
	c.patience.Store(int64(writeTime))
	for range 10 {
		if _, err := c.Write([]byte("x")); err != nil {
			return
		}
	}
	t.Error("each has all of it")
}

func FuzzConnection(f *testing.F) {
	f.Add([]byte("*1\r\n$4\r\nPING\r\n*0\r\n"))
	f.Add([]byte("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n"))
	f.Add([]byte("*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*1\r\n$5\r\nHELLO\r\n"))
	s, err := Start("127.0.0.1:0", nil)
	testkit.Must(f, err)
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, sent []byte) {
		conn := dial(t, s).(*net.TCPConn)
		if _, err := conn.Write(sent); err != nil {
			return
		}
		if err := conn.CloseWrite(); err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, conn)
		alive(t, s)
	})
}
