package mapping

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"vitrine/upstream/plain"
)

// Worker maps the responses of one fetch. Work without programs is done in this process, in bounded
// steps. A jq program is not bounded: one call of a function can use any amount of memory, time or
// stack ("x" * 1e9, .[.n] = 1, tojson of a deeply shared value), and nothing in the process can
// stop it. So programs run in a child process, which is this binary again (child.go). It is started
// for the first program, bounded in memory, and ends with the fetch at the latest; its failure is
// an error of the fetch.
//
// A Worker can be used by several goroutines. The zero value is ready.
type Worker struct {
	mu      sync.Mutex
	command *exec.Cmd
	in      io.WriteCloser
	wire    *wire
	said    *strings.Builder // the process's standard error; of a stack that overflows, Go prints an excerpt
	broken  error
}

// Memory limit of a process that runs programs: a base, plus a multiple of the responses' size.
const (
	childMemory = 64 << 20
	childFactor = 6
)

// Compose makes the input of a document from its parts.
func (w *Worker) Compose(ctx context.Context, c *Composition) ([]byte, error) {
	if !c.programs() {
		return c.run(ctx, c.budgetOf())
	}
	made, err := w.do(ctx, &job{Compose: c, Memory: childMemory + childFactor*c.size()})
	if err != nil {
		return nil, err
	}
	return made.Items[0], nil
}

// Open finds the items of a response and its paging.
func (w *Worker) Open(ctx context.Context, o *Opening) (Page, error) {
	if !o.programs() {
		return o.run(ctx)
	}
	return w.do(ctx, &job{Open: o, Memory: childMemory + childFactor*len(o.Body), body: [][]byte{o.Body}})
}

// do sends a job to the process.
func (w *Worker) do(ctx context.Context, j *job) (Page, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil && w.command == nil {
		w.broken = w.start()
	}
	if w.broken != nil {
		return Page{}, w.broken
	}
	process := w.command.Process
	stop := context.AfterFunc(ctx, func() { _ = process.Kill() })
	defer stop()
	var got reply
	err := w.wire.send(j)
	if err == nil {
		err = w.wire.receive(&got)
	}
	if err != nil {
		w.broken = w.died(ctx)
		return Page{}, w.broken
	}
	return got.Page, got.err()
}

// start starts the process.
func (w *Worker) start() error {
	exe := "/proc/self/exe" // which works even after the file was replaced
	if runtime.GOOS != "linux" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return fmt.Errorf("programs cannot be run: %w", err)
		}
	}
	w.said = new(strings.Builder)
	w.command = exec.Command(exe) //nolint:noctx // it ends with the fetch, see do and Close
	w.command.Args = []string{childName}
	w.command.Env = []string{} // programs do not need it
	w.command.Stderr = w.said
	in, err := w.command.StdinPipe()
	out, wrong := w.command.StdoutPipe()
	if err = errors.Join(err, wrong); err == nil {
		w.in, w.wire = in, newWire(out, in)
		err = w.command.Start()
	}
	if err != nil {
		w.command = nil
		return fmt.Errorf("programs cannot be run: %w", err)
	}
	return nil
}

// died explains why the process is gone.
func (w *Worker) died(ctx context.Context) error {
	w.stop()
	if ctx.Err() != nil {
		return fmt.Errorf("a program was ended: %w", ctx.Err())
	}
	said, _, _ := strings.Cut(w.said.String(), "\n")
	switch {
	case strings.Contains(said, "stack"):
		said = "it overflowed the stack"
	case said == "":
		said = "its process is gone"
	}
	return fmt.Errorf("%w: %s", ErrProgram, plain.Clip(said, 200))
}

func (w *Worker) stop() {
	if w.command == nil {
		return
	}
	_ = w.in.Close()
	_ = w.command.Process.Kill() // it has no state to lose
	_ = w.command.Wait()         // reports that it was killed
	w.command = nil
}

// Close ends the process, if there is one.
func (w *Worker) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop()
}
