package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// raiseDescriptors lets this process, and those that it starts, have as many descriptors as the system allows.
func raiseDescriptors() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // fewer connections are reported as such
	}
}

// An origin is a CMS of the kind that documents come from: it answers in the shape of the sample, uncompressed.
type origin struct {
	server  *http.Server
	url     string
	fetches atomic.Int64

	mu        sync.Mutex
	documents map[string][]byte // by path
}

// The public paths.
const (
	catalogue = "/gvapp/"
	rules     = "/cms/rules/"
	banners   = "/gvapp/singlebanner"
)

func newOrigin() (*origin, error) {
	o := &origin{documents: map[string][]byte{}}
	for path, name := range map[string]string{catalogue: "catalogue", rules: "rules", banners: "banners"} {
		raw, err := os.ReadFile(filepath.Join("..", "upstream", "sample", name+".json"))
		if err != nil {
			return nil, err
		}
		o.documents[path] = raw
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o.url = "http://" + ln.Addr().String()
	o.server = &http.Server{Handler: o}
	go o.server.Serve(ln) //nolint:errcheck // until it is closed
	return o, nil
}

// ServeHTTP answers with what caches in front may keep for longer than a measurement takes; compressed if they ask for it
// in so many words, which nginx, which compresses itself, does not.
func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.fetches.Add(1)
	o.mu.Lock()
	body, ok := o.documents[r.URL.Path]
	o.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Header.Get("X-Compress") == "on" {
		w.Header().Set("Vary", "Accept-Encoding")
		if r.Header.Get("Accept-Encoding") == "gzip" {
			var small bytes.Buffer
			z := gzip.NewWriter(&small)
			_, _ = z.Write(body) // to memory
			_ = z.Close()
			body = small.Bytes()
			w.Header().Set("Content-Encoding", "gzip")
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, len(body)))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// set gives out a document of about size bytes from now on.
func (o *origin) set(path string, size int) error {
	raw, err := grown(path, size)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.documents[path] = raw
	return nil
}

// grown is a document of the sample with as many items as make about size bytes.
func grown(path string, size int) ([]byte, error) {
	name := map[string]string{catalogue: "catalogue", rules: "rules", banners: "banners"}[path]
	raw, err := os.ReadFile(filepath.Join("..", "upstream", "sample", name+".json"))
	if err != nil {
		return nil, err
	}
	if path == catalogue {
		var lists map[string][]map[string]any
		if err := json.Unmarshal(raw, &lists); err != nil {
			return nil, err
		}
		rest, err := json.Marshal(map[string]any{"artist": lists["artist"], "gallery": lists["gallery"]})
		if err != nil {
			return nil, err
		}
		if lists["artwork"], err = repeated(lists["artwork"], size-len(rest)); err != nil {
			return nil, err
		}
		return json.Marshal(lists)
	}
	var list []map[string]any
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	if list, err = repeated(list, size); err != nil {
		return nil, err
	}
	return json.Marshal(list)
}

// repeated are as many of the items as make about size bytes, each with an id, and texts, of its own.
func repeated(items []map[string]any, size int) ([]map[string]any, error) {
	var all []map[string]any
	for i := 0; size > 0; i++ {
		next := map[string]any{}
		for name, value := range items[i%len(items)] {
			if text, ok := value.(string); ok && i >= len(items) && strings.HasPrefix(name, "title") {
				value = fmt.Sprintf("%s %x", text, i*2654435761)
			}
			next[name] = value
		}
		next["id"] = 1000 + i
		raw, err := json.Marshal(next)
		if err != nil {
			return nil, err
		}
		size -= len(raw) + 1
		all = append(all, next)
	}
	return all, nil
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

// listening waits until the process accepts connections, and returns how long after its start that was.
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
