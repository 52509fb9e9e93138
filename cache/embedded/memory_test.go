package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cmd/testkit"
)

// TestWhatIsStoredIsBounded fills a store of one megabyte in every way there is, and then makes
// room again.
func TestWhatIsStoredIsBounded(t *testing.T) {
	for name, command := range map[string]func(i int, text string) []string{
		"long texts": func(i int, text string) []string { return []string{"SET", fmt.Sprint(i), text} },
		"many keys": func(i int, text string) []string {
			return []string{"MSET", fmt.Sprint(i), "", text + fmt.Sprint(i), ""}
		},
		"many fields": func(i int, text string) []string { return []string{"HSET", "h", fmt.Sprint(i), text} },
		"field names": func(i int, text string) []string { return []string{"HINCRBY", "h", fmt.Sprint(i) + text, "1"} },
		"other names": func(i int, text string) []string { return []string{"GETSET", fmt.Sprint(i) + text, "x"} },
		"set if not":  func(i int, text string) []string { return []string{"SETNX", fmt.Sprint(i), text} },
		"little words": func(i int, _ string) []string {
			return append([]string{"MSET"}, strings.Fields(strings.Repeat(fmt.Sprint(i, " "), 40))...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, "127.0.0.1:0")
			commands := ownCommands(s)
			commands.memory.most = 1 << 20
			s.redis.Server().SetPreHook(commands.hook)
			conn := dial(t, s)
			in := bufio.NewReader(conn)
			ask := func(words ...string) string {
				t.Helper()
				write(t, conn, words...)
				line, err := in.ReadString('\n')
				if err == nil && strings.HasPrefix(line, "$") && line != "$-1\r\n" {
					_, err = in.ReadString('\n')
				}
				if err != nil {
					t.Fatal(err)
				}
				return line
			}
			refused := ""
			for i := 0; i < 100_000 && refused == ""; i++ {
				if line := ask(command(i, strings.Repeat("x", 5000))...); strings.HasPrefix(line, "-") {
					refused = line
				}
			}
			if refused != "-OOM command not allowed when used memory > 'maxmemory'.\r\n" {
				t.Fatalf("%q", refused)
			}
			if n := commands.memory.count(); n > 1<<20 {
				t.Errorf("%d bytes are stored", n)
			}
			none := strings.Repeat("x", 1<<20) // a name that there is certainly no room for
			for _, words := range [][]string{
				{"GET", none}, {"HGET", none, "f"}, {"HGETALL", none}, {"EXISTS", none}, {"TTL", none}, {"TYPE", none},
				{"DEL", none}, {"UNLINK", none}, {"GETDEL", none}, {"HDEL", none, "f"}, {"PERSIST", none},
				{"EXPIRE", none, "1"}, {"PEXPIRE", none, "1"}, {"EXPIREAT", none, "1"}, {"PEXPIREAT", none, "1"},
			} {
				if line := ask(words...); strings.HasPrefix(line, "-") {
					t.Errorf("%s, which stores nothing, is refused: %q", words[0], line)
				}
			}
			if line := ask("FLUSHALL"); line != "+OK\r\n" {
				t.Errorf("what makes room is refused: %q", line)
			}
			testkit.Eventually(t, "there is room again", func() bool { return ask("SET", "x", "y") == "+OK\r\n" })
		})
	}
}

// TestAFullStoreIsReadAndPurgedByScripts: they are commands that may write.
func TestAFullStoreIsReadAndPurgedByScripts(t *testing.T) {
	s := newStore(t, "127.0.0.1:0")
	full := ownCommands(s)
	full.scripts, full.memory.most = lease.IsScript, 0
	s.redis.HSet("vitrine:banners", "etag", "e", "layout", lease.Layout)
	s.redis.Server().SetPreHook(full.hook)
	client := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer client.Close()
	h := lease.New("vitrine:", "banners", "holder", time.Minute)
	if got, err := h.Look(t.Context(), client, ""); err != nil || !got.Holds() {
		t.Errorf("a look: %v, %v", got, err)
	}
	if _, err := lease.NewRoster("vitrine:", "self").Read(t.Context(), client, time.Minute); err != nil {
		t.Error(err)
	}
	if _, err := h.Acquire(t.Context(), client, lease.Request{}); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("a lease: %v", err)
	}
	if held, err := h.Purge(t.Context(), client, false); err != nil || !held || s.redis.Exists("vitrine:banners") {
		t.Errorf("a purge: %v, %v", held, err)
	}
}

// TestCommandsDuringTheEndAreNotRun has clients that track keys and go on sending while the store closes.
func TestCommandsDuringTheEndAreNotRun(t *testing.T) {
	var log testkit.Buffer
	s, err := Start("127.0.0.1:0", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 20 {
		conn := dial(t, s)
		write(t, conn, "HELLO", "3")
		write(t, conn, "CLIENT", "TRACKING", "ON", "BCAST")
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

// TestADocumentWrittenAgainAndAgainFits: what is overwritten makes room.
func TestADocumentWrittenAgainAndAgainFits(t *testing.T) {
	s := newStore(t, "127.0.0.1:0")
	m := &memory{redis: s.redis, most: 1 << 20, counted: time.Now().Add(-time.Hour)}
	for range 4 {
		for range 2 { // counted once in a second
			if !m.fits(300_000) {
				t.Fatal("no room")
			}
			if err := s.redis.Set("x", strings.Repeat("x", 300_000)); err != nil {
				t.Fatal(err)
			}
		}
		m.counted = m.counted.Add(-time.Hour)
	}
}

// TestWhatAConnectionHoldsIsBounded: names, prefixes and queues live as long as the connection.
func TestWhatAConnectionHoldsIsBounded(t *testing.T) {
	s := newStore(t, "127.0.0.1:0")
	long := strings.Repeat("x", maxStranger)
	for _, commands := range [][][]string{
		{{"CLIENT", "SETNAME", long}}, {{"HELLO", "3", "SETNAME", long}}, {{"HELLO", "3"}, {"CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", long}},
		{{"SUBSCRIBE", "x"}}, {{"WATCH", "x"}}, {{"COPY", "x", "y"}}, {{"SELECT", "1"}},
	} {
		conn := dial(t, s)
		in := bufio.NewReader(conn)
		for _, words := range commands {
			write(t, conn, words...)
		}
		for line := ""; !strings.HasPrefix(line, "-"); {
			var err error
			if line, err = in.ReadString('\n'); err != nil {
				t.Fatalf("%.60q is not refused: %v", commands, err)
			}
		}
	}
	conn := dial(t, s)
	in := bufio.NewReader(conn)
	write(t, conn, "MULTI")
	for i := range 10_000 {
		write(t, conn, "GET", strings.Repeat("x", 100))
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "-") {
			t.Logf("%d are queued", i)
			break
		}
		if i*100 > maxQueued {
			t.Fatalf("%d are queued", i)
		}
	}
}

// TestTheWritesOfACommandShareItsTime has a client that takes each of them up within it.
func TestTheWritesOfACommandShareItsTime(t *testing.T) {
	server, client := net.Pipe()
	var reading sync.WaitGroup
	reading.Go(func() {
		for err := error(nil); err == nil; {
			<-time.After(writeTimeout / 3)
			_, err = client.Read(make([]byte, 1))
		}
	})
	defer reading.Wait()
	defer client.Close()
	c := &conn{Conn: server}
	c.patience.Store(int64(writeTimeout))
	for range 10 {
		if _, err := c.Write([]byte("x")); err != nil {
			return
		}
	}
	t.Error("each has all of it")
}

// TestCommandsThatWereReceivedMakeRoomForOthers sends more than there is room for at once, one command
// after the other.
func TestCommandsThatWereReceivedMakeRoomForOthers(t *testing.T) {
	s := newStore(t, "127.0.0.1:0")
	s.pending.Store(maxPending - 1<<20)
	conn := dial(t, s)
	in := bufio.NewReader(conn)
	for i := range 5 {
		write(t, conn, "SET", "x", strings.Repeat("x", 600<<10))
		if line, err := in.ReadString('\n'); err != nil || line != "+OK\r\n" {
			t.Fatalf("command %d: %q, %v", i, line, err)
		}
	}
}

// TestCommandsBeingReceivedAreBoundedTogether has many connections send the beginning of a long
// command.
func TestCommandsBeingReceivedAreBoundedTogether(t *testing.T) {
	s := newStore(t, "127.0.0.1:0")
	s.pending.Store(maxPending - 3<<20)
	part := strings.Repeat("x", 1<<20)
	var ended atomic.Int64
	for range 5 {
		conn := dial(t, s)
		go func() {
			_, err := fmt.Fprintf(conn, "*2\r\n$3\r\nGET\r\n$%d\r\n%s", 100<<20, part)
			if err == nil {
				_, err = conn.Read(make([]byte, 100))
			}
			if !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
				ended.Add(1)
			}
		}()
	}
	testkit.Eventually(t, "2 of 5 MB are refused, with room for 3", func() bool { return ended.Load() >= 2 })
	testkit.Eventually(t, "what was refused is not counted", func() bool { return s.pending.Load() <= maxPending })
}
