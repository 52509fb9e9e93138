package logs

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"vitrine/config"
)

// A pipe is one whose reader hangs, goes, or takes half a line, as its take says.
type pipe struct {
	mu   sync.Mutex // guards the field below
	text strings.Builder
	take func(p []byte) (int, error)
}

func (p *pipe) Write(b []byte) (int, error) {
	n, err := p.take(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.Write(b[:n])
	return n, err
}

func TestALogThatIsNotReadHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		out := &pipe{take: func(p []byte) (int, error) { <-back; return len(p), nil }}
		q := NewQueue(out)
		log := New(q, config.Log{Level: "info", Format: "json"})
		line := strings.Repeat("x", 200)
		const lines = 6000 // of 280 bytes: more than 1 MiB
		for i := range lines {
			log.Info("line", "line", i, "text", line)
		}
		lost := q.Lost()
		if lost < 1000 || lost > 4000 {
			t.Errorf("%d lines are lost", lost)
		}
		close(back)
		synctest.Wait()
		log.Info("line")
		q.Close()
		written := strings.Split(out.text.String(), "\n")
		at := lines - int(lost)
		if len(written) != at+3 || !strings.Contains(written[at], fmt.Sprintf(`"level":"ERROR","msg":"log lines lost","lines":%d}`, lost)) || !strings.Contains(written[at+1], `"line"`) || q.Lost() != lost {
			t.Errorf("%d lines, at %d %s", len(written), at, written[min(at, len(written)-1)])
		}
	})
}

func TestALogWhoseReaderHasGoneIsWrittenWhenItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone error
		room := -1
		out := &pipe{take: func(p []byte) (int, error) {
			if gone != nil {
				return 0, gone
			}
			if room >= 0 {
				return min(room, len(p)), errors.New("no space left")
			}
			return len(p), nil
		}}
		q := NewQueue(out)
		log := New(q, config.Log{Level: "info", Format: "text"})
		say := func(text string) {
			log.Info("said", "text", text)
			synctest.Wait()
		}
		say("one")
		gone = errors.New("broken pipe")
		say("two")
		say("three")
		gone, room = nil, 10
		say("four")
		gone, room = errors.New("broken pipe"), -1
		say("five")
		gone = nil
		say("six")
		q.Close()
		var got []string
		for line := range strings.Lines(out.text.String()) {
			_, after, _ := strings.Cut(line, " ")
			got = append(got, after)
		}
		const want = "[level=INFO msg=said text=one\n  level=INFO msg=said text=six\n level=ERROR msg=\"log lines lost\" lines=4\n]"
		if fmt.Sprint(got) != want || q.Lost() != 4 {
			t.Errorf("%d lost\n%q\n%q", q.Lost(), fmt.Sprint(got), want)
		}
	})
}

func TestTheEndDoesNotWaitForAReaderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		q := NewQueue(&pipe{take: func(p []byte) (int, error) { <-back; return len(p), nil }})
		_, _ = q.Write([]byte("line\n"))
		began := time.Now()
		q.Close()
		if took := time.Since(began); took != flushTime {
			t.Error(took)
		}
		close(back)
	})
}
