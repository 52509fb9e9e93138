package harness

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// A Child is vitrine as a process of its own, as an operator runs it. Its store is inside it, and
// it has no operator's address, unless Environ says otherwise.
type Child struct {
	Program string   // "" is the one under test
	Args    []string // "" is serve
	Socket  *os.File // passed as systemd passes the public address; or nil
	Files   int      // how many it may open; 0: as many as the test
	Environ []string
	Log     io.Writer // its stderr

	t       testing.TB
	process *exec.Cmd // nil before it starts
}

// Start starts it, again if it has ended.
func (c *Child) Start(t testing.TB) {
	t.Helper()
	c.t = t
	program, limit, args := c.Program, "", c.Args
	if program == "" {
		program = "vitrine"
	}
	if len(args) == 0 {
		args = []string{"serve"}
	}
	if c.Files > 0 {
		limit = fmt.Sprintf("ulimit -n %d; ", c.Files)
	}
	c.process = exec.Command("sh", append([]string{"-c", limit + `LISTEN_PID=$$ exec "$0" "$@"`, program}, args...)...)
	c.process.Env = append(os.Environ(), "VITRINE_REDIS_URL=embedded:127.0.0.1:0", "VITRINE_ADMIN_LISTEN=")
	if c.Socket != nil {
		c.process.ExtraFiles = []*os.File{c.Socket} // descriptor 3
		c.process.Env = append(c.process.Env, "LISTEN_FDS=1")
	}
	c.process.Env = append(c.process.Env, c.Environ...)
	c.process.Stdout, c.process.Stderr = io.Discard, c.Log
	testkit.Must(t, c.process.Start())
}

// Pid is the process's.
func (c *Child) Pid() int { return c.process.Process.Pid }

// Signal sends it a signal.
func (c *Child) Signal(s os.Signal) {
	c.t.Helper()
	if err := c.process.Process.Signal(s); err != nil {
		c.t.Errorf("%v: %v", s, err)
	}
}

// Wait waits until it has ended, and wants exit code 0.
func (c *Child) Wait() {
	c.t.Helper()
	if err := c.process.Wait(); err != nil {
		c.t.Errorf("vitrine: %v", err)
	}
}

// Stop asks it to stop, and waits until it has.
func (c *Child) Stop() {
	c.t.Helper()
	c.Signal(syscall.SIGTERM)
	c.Wait()
}

// Kill ends it at once.
func (c *Child) Kill() {
	c.t.Helper()
	c.Signal(syscall.SIGKILL)
	_ = c.process.Wait() // "signal: killed" is expected
}

// OpenSocket listens on a free address for [Child], as systemd does: what connects while no process
// accepts waits.
func OpenSocket(t testing.TB) (address string, socket *os.File) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer listener.Close()
	socket, err = listener.(*net.TCPListener).File()
	testkit.Must(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	return listener.Addr().String(), socket
}

// A Served is a running vitrine with an operator's address and a store of its own.
type Served struct {
	*Child
	Public, Operator, Store string // HOST:PORT each
}

// Serve runs one until the test ends, and returns once each document can be served.
func Serve(t testing.TB, environ ...string) *Served {
	t.Helper()
	s := &Served{Public: FreeAddress(t), Operator: FreeAddress(t), Store: FreeAddress(t)}
	s.Child = &Child{Log: t.Output(), Environ: append([]string{
		"VITRINE_LISTEN=" + s.Public, "VITRINE_ADMIN_LISTEN=" + s.Operator, "VITRINE_REDIS_URL=embedded:" + s.Store,
	}, environ...)}
	s.Start(t)
	t.Cleanup(s.End)
	WaitUntilWell(t, "http://"+s.Operator+"/readyz")
	return s
}

// End stops it, unless it has ended.
func (s *Served) End() {
	if s.process.ProcessState == nil {
		s.Stop()
	}
}

// Purge removes a document from the store.
func (s *Served) Purge(resource string) {
	s.t.Helper()
	Redis(s.t, s.Store, "DEL vitrine:"+resource)
}

// SampleCMS runs the command sample-cms on address until the test ends.
func SampleCMS(t testing.TB, address string) {
	t.Helper()
	cms := &Child{Args: []string{"sample-cms", "--listen", address}, Log: t.Output()}
	cms.Start(t)
	t.Cleanup(cms.Stop)
	WaitUntilWell(t, "http://"+address+Routes["rules"])
}

// Get returns an answer's status, header and body.
func Get(client *http.Client, url string) (status int, header http.Header, body []byte, err error) {
	response, err := client.Get(url)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, response.Header, body, err
}

// Run runs another program until the test ends, and waits until it accepts connections at the
// address. It returns the process.
func Run(t testing.TB, address, program string, args ...string) *os.Process {
	t.Helper()
	command := exec.Command(program, args...)
	command.Stdout, command.Stderr = t.Output(), t.Output()
	testkit.Must(t, command.Start())
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // it is stopped below
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // unless it has ended; workers would outlive a killed parent
		select {
		case <-ended:
		case <-time.After(testkit.Patience):
			_ = command.Process.Kill()
			<-ended
		}
	})
	testkit.Eventually(t, program+" listens", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s has ended", program)
		default:
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
	return command.Process
}

// File writes a file into a folder of the test, and returns its path.
func File(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// ProxyConfiguration is a file of docs/deploy/proxies, with the test's addresses in place of those
// in the file.
func ProxyConfiguration(t testing.TB, file string, swap ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(Root, "docs", "deploy", "proxies", file))
	testkit.Must(t, err)
	text := string(content)
	for i := 0; i < len(swap); i += 2 {
		if !strings.Contains(text, swap[i]) {
			t.Fatalf("%s does not say %q", file, swap[i])
		}
		text = strings.ReplaceAll(text, swap[i], swap[i+1])
	}
	return text
}
