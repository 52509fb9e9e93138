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
	"strings"
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
func newLab() *lab {
	dir := try(os.MkdirTemp("", "vitrine-bench-"))
	l := &lab{dir: dir, vitrine: filepath.Join(dir, "vitrine")}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", l.vitrine, "./cmd/vitrine")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		l.close()
		panic(fmt.Errorf("build vitrine: %w\n%s", err, out))
	}
	l.origin = newOrigin()
	raiseDescriptors()
	return l
}

func (l *lab) close() {
	if l.origin != nil {
		l.origin.server.Close()
	}
	os.RemoveAll(l.dir)
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

// start starts a program that will listen at addr.
func start(addr, program string, env []string, args ...string) *process {
	p := &process{cmd: exec.Command(program, args...), addr: addr, ended: make(chan struct{})}
	p.cmd.Env = append(env, "PATH="+os.Getenv("PATH"), "GOMAXPROCS=2")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.began = time.Now()
	check(p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // its status after a signal
		close(p.ended)
	}()
	return p
}

// listening waits until the process accepts connections, and returns how long after its start that
// was.
func (p *process) listening() time.Duration {
	for time.Since(p.began) < patience {
		conn, err := net.Dial("tcp", p.addr)
		if err == nil {
			took := time.Since(p.began)
			check(conn.Close())
			return took
		}
		select {
		case <-p.ended:
			panic(fmt.Errorf("%s ended: %s", p.cmd.Path, p.out.String()))
		case <-time.After(500 * time.Microsecond):
		}
	}
	panic(fmt.Errorf("%s does not listen at %s", p.cmd.Path, p.addr))
}

// started waits until a process that was just started listens.
func started(p *process) *process {
	defer func() {
		if err := recover(); err != nil {
			p.stop()
			panic(err)
		}
	}()
	p.listening()
	return p
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

// startVitrine starts it in front of the origin, with further settings as NAME=VALUE.
func (l *lab) startVitrine(redis string, more ...string) *process {
	addr := freeAddress()
	return start(addr, l.vitrine, append([]string{"VITRINE_LISTEN=" + addr, "VITRINE_ADMIN_LISTEN=", "VITRINE_UPSTREAM_URL=" + l.origin.url,
		"VITRINE_REDIS_URL=" + redis, "VITRINE_TTL=1h", "VITRINE_LOG_LEVEL=error", "VITRINE_UPSTREAM_TIMEOUT=60s"}, more...))
}

// embedded is the store inside vitrine.
const embedded = "embedded:127.0.0.1:0"

// startRedis starts a real Redis, and returns its address.
func (l *lab) startRedis() *process {
	program, addr := find("redis-server", "redis-server"), freeAddress()
	_, port, _ := strings.Cut(addr, ":")
	return started(start(addr, program, nil, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", l.dir))
}

// freeAddress is one to listen on.
func freeAddress() string {
	l := try(net.Listen("tcp", "127.0.0.1:0"))
	check(l.Close())
	return l.Addr().String()
}

// client makes a connection for each request, and takes answers as they come.
var client = &http.Client{
	Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true},
	Timeout:   2 * time.Minute,
}

// get asks once. The answer's body was read.
func get(url string, fields [][2]string) (*http.Response, []byte) {
	req := try(http.NewRequest(http.MethodGet, url, nil))
	for _, f := range fields {
		req.Header.Set(f[0], f[1])
	}
	resp := try(client.Do(req))
	defer resp.Body.Close()
	return resp, try(io.ReadAll(resp.Body))
}
