// Package redistest starts real redis-server processes for tests, each on a loopback port, with its
// own folder, and ended with its test.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"vitrine/cmd/testkit"

	"github.com/redis/go-redis/v9"
)

// A Server is a redis-server process on a loopback port, with its own folder. It ends with the
// test.
type Server struct {
	Addr string // host:port
	Port int

	t    testing.TB
	dir  string
	args []string
	cmd  *exec.Cmd
	conn *redis.Client
}

// Start starts a server with the given extra arguments, such as "--maxmemory", "1mb". Where no
// redis-server is installed the test is skipped, but fails in CI.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartAs(t, func(dir string, port int) []string {
		return append([]string{
			"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
			"--save", "", "--appendonly", "no", "--logfile", filepath.Join(dir, "redis.log"),
		}, args...)
	})
}

// StartAs is [Start] with nothing but the arguments that of returns.
func StartAs(t testing.TB, of func(dir string, port int) []string) *Server {
	t.Helper()
	Require(t)
	s := &Server{t: t, dir: t.TempDir(), Port: FreePort(t)}
	s.args = of(s.dir, s.Port)
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port))
	s.run()
	t.Cleanup(s.Kill)
	return s
}

// Require skips the test where redis-server is missing, and fails it in CI.
func Require(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("redis-server is not installed, and CI must run this test")
		}
		t.Skip("needs redis-server: apt-get install redis-server, or brew install redis")
	}
}

// Major is the first number of the version of redis-server.
func Major(t testing.TB) (n int) {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "redis-server", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(string(text), " v=")
	if _, err := fmt.Sscanf(version, "%d.", &n); err != nil {
		t.Fatalf("redis-server --version: %q: %v", text, err)
	}
	return n
}

const firstPort, ports = 10_000, 10_000

// FreePort returns a free loopback port, which no other test gets until this one ends, in this process
// or another: it claims the unused UDP port of that number. A killed server leaves its port free for a
// time; these ports are therefore below those that the system gives to connections. The ports of the
// Clusters' buses, 10,000 above, are never returned.
func FreePort(t testing.TB) int {
	t.Helper()
	for range ports {
		port := firstPort + rand.IntN(ports)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		claim, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// URL is the server's address as a setting: redis://host:port.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Client is a client of the server's, always the same one, closed with the test.
func (s *Server) Client() *redis.Client {
	if s.conn == nil {
		conn := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
		s.t.Cleanup(func() { _ = conn.Close() })
		s.conn = conn
	}
	return s.conn
}

// run starts the process and waits for its first answer.
func (s *Server) run() {
	s.t.Helper()
	// A process that fuzzes has pipes to the one that waits for all who hold them.
	for pipe := 3; pipe <= 4; pipe++ {
		syscall.CloseOnExec(pipe)
	}
	s.cmd = exec.Command("redis-server", s.args...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("redis-server: %v", err)
	}
	client := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	if err := testkit.Retry(func() error {
		err := client.Ping(context.Background()).Err()
		if reply := redis.Error(nil); errors.As(err, &reply) {
			return nil // an error reply (NOAUTH, LOADING) is an answer too
		}
		return err
	}); err != nil {
		log, _ := os.ReadFile(filepath.Join(s.dir, "redis.log"))
		s.t.Fatalf("redis-server %v: %v\n%s", s.args, err, log)
	}
}

// Kill ends the process at once (SIGKILL) and waits for its end. Killing twice does nothing.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // "signal: killed" is expected
	s.cmd = nil
}

// Restart starts a killed server again on the same port and folder: empty, unless its arguments
// make it keep its data.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.run()
}

// Relocate starts a server of [Start]'s again on another port, likewise.
func (s *Server) Relocate() {
	s.t.Helper()
	s.Kill()
	s.Port = FreePort(s.t)
	s.args[1], s.Addr, s.conn = strconv.Itoa(s.Port), net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)), nil
	s.run()
}

// Pause stops the process (SIGSTOP): connections stay open and nothing answers.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume continues a paused process (SIGCONT).
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("redis-server: %v: %v", sig, err)
	}
}

// Spoil makes a folder of the name in the server's folder, where a file of that name would be written.
func (s *Server) Spoil(name string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Join(s.dir, name, "in the way"), 0o700); err != nil {
		s.t.Fatal(err)
	}
}
