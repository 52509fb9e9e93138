package main

import (
	"bytes"
	"encoding/json"
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
const patience = 10 * time.Second

// lab is what all measurements share.
type lab struct {
	dir       string
	vitrine   string // the program
	documents int    // bytes of the three documents together
}

// build builds vitrine as a release is.
func (l *lab) build() error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", l.vitrine, "./cmd/vitrine")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build vitrine: %w\n%s", err, out)
	}
	return nil
}

// largest is the size in bytes up to which a document has a budget.
const largest = 64 << 10

// writeDocuments makes the folder that vitrine fetches from: the sample, with its artworks repeated until the
// catalogue is as large as the budget reaches. It returns how much that is altogether.
func (l *lab) writeDocuments() (total int, err error) {
	for _, name := range []string{"catalogue", "rules", "banners"} {
		raw, err := os.ReadFile(filepath.Join("..", "upstream", "sample", name+".json"))
		if err != nil {
			return 0, err
		}
		if name == "catalogue" {
			if raw, err = grow(raw); err != nil {
				return 0, err
			}
		}
		if err := os.WriteFile(filepath.Join(l.dir, name+".json"), raw, 0o600); err != nil {
			return 0, err
		}
		total += len(raw)
	}
	return total, nil
}

// grow repeats the artworks of a catalogue.
func grow(raw []byte) ([]byte, error) {
	var catalogue map[string][]map[string]any
	if err := json.Unmarshal(raw, &catalogue); err != nil {
		return nil, err
	}
	sample := catalogue["artwork"]
	for i := 0; ; i++ {
		next := map[string]any{}
		for name, value := range sample[i%len(sample)] {
			next[name] = value
		}
		next["id"] = 1000 + i
		catalogue["artwork"] = append(catalogue["artwork"], next)
		grown, err := json.Marshal(catalogue)
		if err != nil {
			return nil, err
		}
		if len(grown) > largest-2000 { // what normalizing adds stays below
			return grown, nil
		}
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

// startVitrine starts it on the folder of documents.
func (l *lab) startVitrine(redis string) (*process, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	return start(addr, l.vitrine, "serve", "--listen", addr, "--admin-listen", "", "--upstream-url", "file:"+l.dir,
		"--redis-url", redis, "--ttl", "1h", "--log-level", "error")
}

// freeAddress is one to listen on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// get asks once, and returns the answer as it came over the wire.
func get(addr, target string, fields [][2]string) (status int, size int, raw []byte, err error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+addr+target, nil)
	if err != nil {
		return 0, 0, nil, err
	}
	for _, f := range fields {
		req.Header.Set(f[0], f[1])
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Do(req)
	if err != nil {
		return 0, 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, 0, nil, err
	}
	var out bytes.Buffer
	resp.Body = io.NopCloser(bytes.NewReader(body))
	err = resp.Write(&out)
	return resp.StatusCode, len(body), out.Bytes(), err
}
