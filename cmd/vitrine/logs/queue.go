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

	mu      sync.Mutex // guards the fields below
	lines   []byte     // that wait
	torn    bool       // the last write ended within a line
	lost    uint64     // since the last notice
	total   uint64     // lost in all
	closed  bool
	changed sync.Cond

	ended chan struct{}
}

// NewQueue makes a queue. Close it.
func NewQueue(to io.Writer) *Queue {
	q := &Queue{to: to, ended: make(chan struct{})}
	q.changed.L = &q.mu
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
	q.changed.Signal()
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
	q.changed.Signal()
	q.mu.Unlock()
	select {
	case <-q.ended:
	case <-time.After(flushTime): // the write under way ends with the process
	}
}

func (q *Queue) lose(lines []byte) {
	n := uint64(bytes.Count(lines, []byte("\n"))) //nolint:gosec // not negative
	q.lost, q.total = q.lost+n, q.total+n
}

// run writes until the queue is closed and empty.
func (q *Queue) run() {
	defer close(q.ended)
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.lines) == 0 && !q.closed {
			q.changed.Wait()
		}
		if len(q.lines) == 0 {
			return
		}
		batch := q.lines
		q.lines = nil
		written := q.write(batch)
		if notice := q.notice.Load(); written && notice != nil && q.lost > 0 && len(q.lines) == 0 {
			q.lines, q.lost = (*notice)(q.lost), 0
		}
	}
}

// write writes lines, after the end of a line that was torn, and reports whether it could. The caller
// holds mu, which it gives up meanwhile.
func (q *Queue) write(lines []byte) bool {
	before := 0
	if q.torn {
		before = 1
		lines = append([]byte("\n"), lines...)
	}
	q.mu.Unlock()
	n, err := q.to.Write(lines)
	q.mu.Lock()
	if n > 0 {
		q.torn = lines[n-1] != '\n'
	}
	if err != nil {
		q.lose(lines[max(n, before):])
	}
	return err == nil
}
