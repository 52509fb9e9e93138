package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// patience is how long a process may take to begin or to end.
const patience = 20 * time.Second

// lab is what all measurements share.
type lab struct {
	dir     string
	vitrine string // the program
	origin  *origin
}

// newLab builds vitrine as a release is built.
func newLab() (*lab, error) {
	dir, err := os.MkdirTemp("", "vitrine-bench-")
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir, vitrine: filepath.Join(dir, "vitrine")}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", l.vitrine, "./cmd/vitrine")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		l.close()
		return nil, fmt.Errorf("build vitrine: %w\n%s", err, out)
	}
	if l.origin, err = newOrigin(); err != nil {
		l.close()
		return nil, err
	}
	raiseDescriptors()
	return l, nil
}

func (l *lab) close() {
	if l.origin != nil {
		l.origin.server.Close()
	}
	os.RemoveAll(l.dir)
}

// has reports whether vitrine knows a flag.
func (l *lab) has(flag string) bool {
	help, _ := exec.Command(l.vitrine, "serve", "--help").CombinedOutput() // which exits as it likes
	return bytes.Contains(help, []byte(flag))
}

// allocations runs the test that holds that a hit allocates nothing.
func (l *lab) allocations() error {
	cmd := exec.Command("go", "test", "-count=1", "-run", "^TestAHitAllocatesNothing$", "./proxy")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("a hit allocates: %w\n%s", err, out)
	}
	return nil
}

// raiseDescriptors lets this process, and those that it starts, have as many descriptors as the
// system allows.
func raiseDescriptors() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // fewer connections are reported as such
	}
}

// A process is a server under measurement.
type process struct {
	cmd   *exec.Cmd
	addr  string
	began time.Time
	out   bytes.Buffer
	ended chan struct{}
}

// start starts a program that will listen at addr, on the two cores that everything shares.
func start(addr, program string, args ...string) (*process, error) {
	name, all := shared(program, args)
	p := &process{cmd: exec.Command(name, all...), addr: addr, ended: make(chan struct{})}
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GOMAXPROCS=2"}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // it is told to end
		close(p.ended)
	}()
	return p, nil
}

// shared keeps a program to two cores where there are more.
func shared(program string, args []string) (string, []string) {
	if taskset, err := exec.LookPath("taskset"); err == nil && runtime.NumCPU() > 2 {
		return taskset, append([]string{"-c", "0,1", program}, args...)
	}
	return program, args
}

// listening waits until the process accepts connections, and returns how long after its start that
// was.
func (p *process) listening() (time.Duration, error) {
	for time.Since(p.began) < patience {
		conn, err := net.Dial("tcp", p.addr)
		if err == nil {
			took := time.Since(p.began)
			return took, conn.Close()
		}
		select {
		case <-p.ended:
			return 0, fmt.Errorf("%s ended: %s", p.cmd.Path, p.out.String())
		case <-time.After(500 * time.Microsecond):
		}
	}
	return 0, fmt.Errorf("%s does not listen at %s", p.cmd.Path, p.addr)
}

// started waits until a process that was just started listens. It takes what start returns.
func started(p *process, err error) (*process, error) {
	if err != nil {
		return nil, err
	}
	if _, err := p.listening(); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// stop ends the process.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // unless it has ended
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// startVitrine starts it in front of the origin, with further flags.
func (l *lab) startVitrine(redis string, flags ...string) (*process, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	return start(addr, l.vitrine, append([]string{"serve", "--listen", addr, "--admin-listen", "", "--upstream-url", l.origin.url,
		"--redis-url", redis, "--ttl", "1h", "--log-level", "error", "--upstream-max-bytes", "128MiB", "--upstream-timeout", "60s"}, flags...)...)
}

// embedded is the store inside vitrine.
const embedded = "embedded:127.0.0.1:0"

// startRedis starts a real Redis, and returns its address.
func (l *lab) startRedis() (*process, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("redis-server is not installed: apt-get install redis-server")
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	return started(start(addr, program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", l.dir))
}

// freeAddress is one to listen on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// client makes a connection for each request, and takes answers as they come.
var client = &http.Client{
	Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true, TLSClientConfig: trusting},
	Timeout:   2 * time.Minute,
}

// get asks once. The answer's body was read.
func get(url string, fields [][2]string) (*http.Response, []byte, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range fields {
		req.Header.Set(f[0], f[1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}
