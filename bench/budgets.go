package main

import (
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// starts is how often a start is measured.
const starts = 9

// budgets measures what is not throughput.
func budgets(l *lab, s settings, r *report) error {
	t := table{Name: "budgets", Head: []string{"what", "measured", "budget", ""}}
	row := func(what, measured, budget string, good bool) {
		t.Rows = append(t.Rows, []string{what, measured, budget, judge(good)})
	}
	total := 0
	for path, size := range map[string]int{catalogue: 55_000, rules: 6000, banners: 2600} {
		if err := l.origin.set(path, size); err != nil {
			return err
		}
		total += size
	}
	bytes, err := l.memoryOfAllForms()
	if err != nil {
		return err
	}
	allowed := 25_000_000 + 8*total
	row("memory, every representation made, after load", megabytes(bytes), megabytes(allowed), bytes <= allowed)

	const idle = 10_000
	each, err := l.idleConnection(idle)
	if err != nil {
		return err
	}
	row(fmt.Sprintf("an idle connection, of %d that were answered once", idle), fmt.Sprintf("%.1f KB", float64(each)/1e3), "6 KB", each <= 6000)

	took, err := l.startTimes(embedded, false)
	if err != nil {
		return err
	}
	row("start to listening, store inside", times(took), "50 ms", median(took) <= 50*time.Millisecond)
	redis, err := l.startRedis()
	if err != nil {
		return err
	}
	defer redis.stop()
	if took, err = l.startTimes("redis://"+redis.addr, true); err != nil {
		return err
	}
	row("start to first answer, Redis warm", times(took), "100 ms", median(took) <= 100*time.Millisecond)
	r.add(t)
	return nil
}

func times(all []time.Duration) string {
	return fmt.Sprintf("%s ms (median of %d, worst %s)", millis(median(all)), len(all), millis(slices.Max(all)))
}

// memoryOfAllForms is what vitrine has in RAM of its own after it made every representation and was
// loaded.
func (l *lab) memoryOfAllForms() (int, error) {
	p, err := started(l.startVitrine(embedded))
	if err != nil {
		return 0, err
	}
	defer p.stop()
	for _, path := range []string{catalogue, rules, banners, banners + "?ordering=-id", catalogue + "?format=api", rules + "?format=api", banners + "?format=api"} {
		for _, coding := range []string{"identity", "gzip", "br", "zstd"} {
			if _, _, err := get("http://"+p.addr+path, [][2]string{{"Accept-Encoding", coding}}); err != nil {
				return 0, err
			}
		}
	}
	if _, err := wrk(p, target{url: "http://" + p.addr + catalogue}, 32, 2*time.Second); err != nil {
		return 0, err
	}
	return resident(p.cmd.Process.Pid, own), nil
}

// idleConnection is what n connections that are idle after an answer take, for each, in bytes.
func (l *lab) idleConnection(n int) (int, error) {
	p, err := started(l.startVitrine(embedded))
	if err != nil {
		return 0, err
	}
	defer p.stop()
	if _, _, err := get("http://"+p.addr+rules, nil); err != nil {
		return 0, err
	}
	before := resident(p.cmd.Process.Pid, own)
	held, err := hold(p.addr, n)
	defer held.close()
	if err != nil {
		return 0, err
	}
	time.Sleep(3 * time.Second) // what was needed for the answers is given back
	return (resident(p.cmd.Process.Pid, own) - before) / n, nil
}

// connections that are held open.
type heldConns []net.Conn

func (h heldConns) close() {
	for _, c := range h {
		_ = c.Close() // nobody waits for it
	}
}

// hold opens n connections and has a request answered on each.
func hold(addr string, n int) (heldConns, error) {
	var all heldConns
	answer := make([]byte, 64<<10)
	for range n {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return all, err
		}
		all = append(all, c)
		if _, err := io.WriteString(c, "HEAD "+rules+" HTTP/1.1\r\nHost: bench\r\n\r\n"); err != nil {
			return all, err
		}
		if _, err := c.Read(answer); err != nil {
			return all, err
		}
	}
	return all, nil
}

// startTimes starts vitrine several times, and returns how long it took to listen, or to answer
// with a document. The first start, which fills what is to be warm, does not count.
func (l *lab) startTimes(redis string, answer bool) ([]time.Duration, error) {
	var all []time.Duration
	for i := range starts + 1 {
		p, err := l.startVitrine(redis)
		if err != nil {
			return nil, err
		}
		took, err := p.listening()
		if err == nil && answer {
			_, _, err = get("http://"+p.addr+catalogue, nil)
			took = time.Since(p.began)
		}
		p.stop()
		if err != nil {
			return nil, err
		}
		if i > 0 {
			all = append(all, took)
		}
	}
	return all, nil
}
