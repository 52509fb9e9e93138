package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"vitrine/cmd/testkit"
)

const own = "return redis.call('PING')"

func newStore(t *testing.T, address string) *Store {
	t.Helper()
	s, err := Start(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.redis.Server().SetPreHook(ownCommands(s).hook)
	return s
}

// ownCommands are those of a store whose one script is own.
func ownCommands(s *Store) *commands {
	return &commands{track: s.track, memory: &memory{redis: s.redis, most: maxStored}, scripts: func(text string) bool { return text == own }, log: slog.New(slog.DiscardHandler)}
}

// dial connects, with a bound on everything that is done with the connection.
func dial(t *testing.T, s *Store) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// alive fails unless a newcomer is served.
func alive(t *testing.T, s *Store) {
	t.Helper()
	options, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	if err := client.HSet(t.Context(), "vitrine:x", "a", "b").Err(); err != nil {
		t.Fatalf("the store does not serve any more: %v", err)
	}
}

// None of these may end the process, nor reserve memory for bytes that do not come.
func TestWhatIsNotACommandEndsItsConnectionAlone(t *testing.T) {
	s := newStore(t, "127.0.0.1:0")
	for _, garbage := range []string{
		"*0\r\n", "*-1\r\n", "*1\r\n$-1\r\n", "*1\r\n$9223372036854775800\r\n", "*2\r\n$4\r\nPING\r\n$99999999999\r\n",
		"*99999999999\r\n$1\r\n", "*9223372036854775807\r\n", "*1\r\n:1\r\n", "*1\r\n+PING\r\n", "$4\r\nPING\r\n", "PING\r\n", "\r\n", "\n",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "*" + strings.Repeat("1", 100_000), "*1\r\n$" + strings.Repeat("0", 100_000), "*1\r\n$4\r\nPINGxx",
		"*+1\r\n$4\r\nPING\r\n", "*1\n$4\nPING\n", "\x16\x03\x01\x02\x00\n",
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
	faulty := ownCommands(s)
	faulty.panics = func(cmd string) {
		if cmd == "GET" {
			panic("a fault of miniredis")
		}
	}
	s.redis.Server().SetPreHook(faulty.hook)
	conn := dial(t, s)
	in := bufio.NewReader(conn)
	write(t, conn, "GET", "x")
	if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "-ERR internal error") {
		t.Errorf("%q, %v", line, err)
	}
	write(t, conn, "PING")
	if line, err := in.ReadString('\n'); err != nil || line != "+PONG\r\n" {
		t.Errorf("on the same connection: %q, %v", line, err)
	}
	alive(t, s)
}

func TestConnectionsToTheStoreAreBounded(t *testing.T) {
	s := newStore(t, "127.0.0.1:0")
	for range maxConnections {
		conn := dial(t, s)
		write(t, conn, "PING")
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "+PONG\r\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	one := dial(t, s)
	if answer, err := io.ReadAll(one); err != nil || string(answer) != "-ERR max number of clients reached\r\n" {
		t.Errorf("%q, %v", answer, err)
	}
}

// track makes a connection to which all changes are announced.
func track(t *testing.T, s *Store) {
	t.Helper()
	c := dial(t, s)
	in := bufio.NewReader(c)
	write(t, c, "HELLO", "3")
	write(t, c, "CLIENT", "TRACKING", "ON", "BCAST")
	for line := ""; line != "+OK\r\n"; {
		var err error
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
}

// A client that does not read must not hold up those who write.
func TestATrackerThatDoesNotReadIsCutOff(t *testing.T) {
	s := newStore(t, "127.0.0.1:0")
	track(t, s)
	options, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	options.ReadTimeout = 15 * time.Second
	client := redis.NewClient(options)
	defer client.Close()
	key := strings.Repeat("k", 1<<20)
	for range 40 { // more than the sockets' buffers hold
		if err := client.Set(t.Context(), key, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAScriptRepliesAfterItsChangesAreAnnounced has one script's announcement take up another's key.
func TestAScriptRepliesAfterItsChangesAreAnnounced(t *testing.T) {
	s := newStore(t, "127.0.0.1:0")
	track(t, s)
	busy, free := make(chan struct{}), make(chan struct{})
	for listener := range s.track.listeners() {
		go listener.Block(func(*server.Writer) {
			close(busy)
			<-free
		})
	}
	<-busy
	s.track.written["key"] = true // by the first script
	var announced sync.WaitGroup
	announced.Go(func() { s.track.announce("EVALSHA", nil) }) // by the second one, which ended first
	testkit.Eventually(t, "the key is being announced", func() bool {
		s.track.mu.Lock()
		defer s.track.mu.Unlock()
		return len(s.track.written) == 0
	})
	replies := make(chan struct{})
	announced.Go(func() {
		s.track.announce("EVALSHA", nil) // by the first one
		close(replies)
	})
	select {
	case <-replies:
		t.Error("the first script replies before its change is announced")
	case <-time.After(100 * time.Millisecond):
	}
	close(free)
	announced.Wait()
}

func TestAStoreThatOthersReachWantsItsPassword(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0"} {
		if s, err := Start(address, nil); err == nil || !strings.Contains(err.Error(), "password") {
			if err == nil {
				s.Close()
			}
			t.Errorf("%s: %v", address, err)
		}
	}
	s := newStore(t, "a-long-password@127.0.0.1:0")
	silent := dial(t, s)
	defer func() {
		if _, err := io.Copy(io.Discard, silent); err != nil {
			t.Errorf("a client that says nothing is waited for: %v", err)
		}
	}()
	if !strings.Contains(s.URL(), ":a-long-password@") {
		t.Error("the URL has no password")
	}
	alive(t, s)
	for _, greeting := range [][]string{{"PING"}, {"AUTH", "wrong"}, {"HELLO", "3", "AUTH", "default", "wrong"}, {"FLUSHALL"}} {
		conn := dial(t, s)
		write(t, conn, greeting...)
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, "-NOAUTH") && !strings.HasPrefix(line, "-WRONGPASS") {
			t.Errorf("%q: %q, %v", greeting, line, err)
		}
		// Who has not shown it is not listened to for long.
		if _, err := io.WriteString(conn, "*2\r\n$4\r\nPING\r\n$100000\r\n"); err == nil {
			if answer, err := io.ReadAll(conn); err == nil && !strings.Contains(string(answer), "-ERR Protocol error") {
				t.Errorf("%q, and then a long word: %q", greeting, answer)
			}
		}
	}
	conn := dial(t, s)
	in := bufio.NewReader(conn)
	write(t, conn, "AUTH", "a-long-password")
	write(t, conn, "SET", "k", strings.Repeat("x", 100_000))
	for range 2 {
		if line, err := in.ReadString('\n'); err != nil || line != "+OK\r\n" {
			t.Errorf("with the password: %q, %v", line, err)
		}
	}
	alive(t, s)
}

func FuzzConnection(f *testing.F) {
	f.Add([]byte("*1\r\n$4\r\nPING\r\n*0\r\n"))
	f.Add([]byte("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n"))
	f.Add([]byte("*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*4\r\n$6\r\nCLIENT\r\n$8\r\nTRACKING\r\n$2\r\nON\r\n$5\r\nBCAST\r\n"))
	s, err := Start("127.0.0.1:0", nil)
	if err != nil {
		f.Fatal(err)
	}
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
