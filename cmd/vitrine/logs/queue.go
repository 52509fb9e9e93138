package logs

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// queuedBytes bounds the lines that wait for a reader.
	queuedBytes = 1 << 20
	// flushTime is how long the end of a process waits for it.
	flushTime = time.Second
)

// A Queue passes lines on to a file, such as a pipe of which the reader may hang or go. Its Write
// never waits. A line that finds no room, or is not written, is lost: it is counted, and a line says
// so when the reader is back.
type Queue struct {
	to     io.Writer
	notice atomic.Pointer[func(lost uint64) []byte] // makes that line; nil: none

	mu     sync.Mutex // guards the fields below
	lines  []byte     // that wait
	lost   uint64     // since the last notice
	total  uint64     // lost in all
	closed bool

	changed chan struct{} // has room for one
	ended   chan struct{}
}

// NewQueue makes a queue. Close it.
func NewQueue(to io.Writer) *Queue {
	q := &Queue{to: to, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	go q.run()
	return q
}

// Write takes whole lines. Its error is nil.
func (q *Queue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.lines)+len(p) > queuedBytes {
		q.lose(p)
	} else {
		q.lines = append(q.lines, p...)
	}
	q.wake()
	return len(p), nil
}

// Lost returns how many lines were lost.
func (q *Queue) Lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}

// Close waits for what is left, but not long for a reader that hangs.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.wake()
	q.mu.Unlock()
	select {
	case <-q.ended:
	case <-time.After(flushTime): // the write under way ends with the process
	}
}

func (q *Queue) wake() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

func (q *Queue) lose(lines []byte) {
	n := uint64(bytes.Count(lines, []byte("\n"))) //nolint:gosec // not negative
	q.lost, q.total = q.lost+n, q.total+n
}

// run writes until the queue is closed and empty.
func (q *Queue) run() {
	defer close(q.ended)
	torn := false // the last write ended within a line
	for range q.changed {
		for {
			q.mu.Lock()
			batch, last := q.lines, q.closed
			q.lines = nil
			q.mu.Unlock()
			if len(batch) == 0 && last {
				return
			} else if len(batch) == 0 {
				break
			}
			torn = q.write(batch, torn)
		}
	}
}

// write writes lines, after the end of a line that was torn, and reports whether it tore one.
func (q *Queue) write(lines []byte, torn bool) bool {
	if torn {
		if _, err := q.to.Write([]byte("\n")); err != nil {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.lose(lines)
			return true
		}
	}
	n, err := q.to.Write(lines)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.lose(lines[n:])
	} else if notice := q.notice.Load(); notice != nil && q.lost > 0 && len(q.lines) == 0 {
		q.lines, q.lost = append(q.lines, (*notice)(q.lost)...), 0
	}
	return n > 0 && lines[n-1] != '\n'
}
