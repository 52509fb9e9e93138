// Package testkit has helpers for tests: waiting with a limit for a condition, a channel or a peer,
// and a buffer that is written while it is read. A test that fails after a while says which it was;
// one that hangs takes its package down, ten minutes later.
package testkit

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Patience is how long [Eventually], [Receive] and [Retry] wait, and what [Dial] and
// [http.DefaultClient] ask may take to answer.
const Patience = 30 * time.Second

func init() { http.DefaultClient.Timeout = Patience }

// Must ends the test with the error, if it is one.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Check fails the test with the error, if it is one, and lets it go on.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Write sends text, or ends the test.
func Write(t testing.TB, to io.Writer, text string) {
	t.Helper()
	_, err := io.WriteString(to, text)
	Must(t, err)
}

// Eventually waits until ok returns true.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Within(t, Patience, what, ok)
}

// Within is Eventually with a limit of its own.
func Within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	if retry(limit, func() error {
		if ok() {
			return nil
		}
		return errNotYet
	}) != nil {
		t.Fatalf("not within %v: %s", limit, what)
	}
}

var errNotYet = errors.New("not yet")

// Retry calls check until it returns nil, and returns its last error if that takes too long.
func Retry(check func() error) error { return retry(Patience, check) }

func retry(limit time.Duration, check func() error) error {
	hung := time.AfterFunc(limit+Patience, func() {
		debug.SetTraceback("all")
		panic("testkit: a condition that is waited for has not been looked at to its end")
	})
	defer hung.Stop()
	for began := time.Now(); ; {
		err := check()
		waited := time.Since(began)
		if err == nil || waited > limit {
			return err
		}
		<-time.After(max(time.Millisecond, min(waited/10, 10*time.Millisecond))) // waiting costs others little, and this at most a tenth more
	}
}

// Receive waits for a value from the channel, or for its end.
func Receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Patience):
		t.Fatalf("nothing was received within %v", Patience)
		panic("unreachable")
	}
}

// Dial connects. Reading and writing end after a while, and the connection with the test.
func Dial(t testing.TB, network, address string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), network, address)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() }) // a second time in some tests
		err = conn.SetDeadline(time.Now().Add(Patience))
	}
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// Answer is what a GET brought.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Ask sends a GET.
func Ask(client *http.Client, url string) (Answer, error) {
	response, err := client.Get(url)
	if err != nil {
		return Answer{}, err
	}
	body, err := io.ReadAll(response.Body)
	return Answer{response.StatusCode, response.Header, string(body)}, errors.Join(err, response.Body.Close())
}

// SocketDir is a temporary folder in whose path a Unix socket has room: a system allows it about a
// hundred bytes, of which TMPDIR and the test's name can take most.
func SocketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") //nolint:usetesting // t.TempDir has the test's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // it is a temporary folder
	return dir
}

// Waiting are the tests of a package, of which more wait at once than there are processors.
type Waiting struct {
	*testing.M
	AtOnce int
}

// Run runs them.
func (w Waiting) Run() int {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(w.AtOnce)); err != nil {
		panic(err)
	}
	return w.M.Run()
}

// Accept is AcceptFrom a free loopback port, whose address it returns.
func Accept(t testing.TB, handle func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	AcceptFrom(t, l, handle)
	return l.Addr().String()
}

// AcceptFrom hands each connection to a function, after which it is closed, until the test ends.
func AcceptFrom(t testing.TB, l net.Listener, handle func(net.Conn)) {
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				stop := context.AfterFunc(t.Context(), func() { _ = c.Close() }) // ends the function's reads
				defer stop()
				handle(c)
				_ = c.Close() // it may be closed already
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
}

// Allocated is how many bytes a function allocates, and whatever else runs.
func Allocated(do func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// Stopwatch measures time as a process has it: a millisecond for each that it has slept, however
// long that took on a busy machine. Bounds on what a process does hold by this clock everywhere.
func Stopwatch(t testing.TB) (elapsed func() time.Duration) {
	var slept atomic.Int64
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
				slept.Add(int64(time.Millisecond))
			}
		}
	}()
	t.Cleanup(func() { close(end); <-ended })
	return func() time.Duration { return time.Duration(slept.Load()) }
}

// Buffer is an output that can be read while it is written. The zero value is empty.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns everything written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
