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

// memory measures what vitrine takes, and how soon it answers after a start.
func memory(l *lab, _ settings) []table {
	t := table{Name: "memory", Head: []string{"what", "measured", "budget", ""}}
	row := func(what, measured, budget string, good bool) {
		t.Rows = append(t.Rows, []string{what, measured, budget, judge(good)})
	}
	total := 0
	for path, size := range map[string]int{catalogue: 55_000, rules: 6000, banners: 2600} {
		l.origin.set(path, size)
		total += size
	}
	bytes := l.memoryOfAllVariants()
	allowed := 25_000_000 + 8*total
	row("memory, every variant made, after load", megabytes(bytes), megabytes(allowed), bytes <= allowed)

	const idle = 10_000
	each := l.idleConnection(idle)
	row(fmt.Sprintf("an idle connection, of %d that were answered once", idle), fmt.Sprintf("%.1f KB", float64(each)/1e3), "6 KB", each <= 6000)

	took := l.startTimes(embedded, false)
	row("start to listening, store inside", times(took), "50 ms", median(took) <= 50*time.Millisecond)
	redis := l.startRedis()
	defer redis.stop()
	took = l.startTimes("redis://"+redis.addr, true)
	row("start to first answer, Redis warm", times(took), "100 ms", median(took) <= 100*time.Millisecond)
	return []table{t}
}

func times(all []time.Duration) string {
	return fmt.Sprintf("%s ms (median of %d, worst %s)", millis(median(all)), len(all), millis(slices.Max(all)))
}

// memoryOfAllVariants is what vitrine has in RAM of its own after it made every variant and was
// loaded.
func (l *lab) memoryOfAllVariants() int {
	p := started(l.startVitrine(embedded))
	defer p.stop()
	for _, path := range []string{catalogue, rules, banners, banners + "?ordering=-id", catalogue + "?format=api", rules + "?format=api", banners + "?format=api"} {
		for _, coding := range []string{"identity", "gzip", "br", "zstd"} {
			get("http://"+p.addr+path, [][2]string{{"Accept-Encoding", coding}})
		}
	}
	wrk(p, target{url: "http://" + p.addr + catalogue}, 32, 2*time.Second)
	return resident(p.cmd.Process.Pid, own)
}

// idleConnection is what n connections that are idle after an answer take, for each, in bytes.
func (l *lab) idleConnection(n int) int {
	p := started(l.startVitrine(embedded))
	defer p.stop()
	get("http://"+p.addr+rules, nil)
	before := resident(p.cmd.Process.Pid, own)
	answer := make([]byte, 64<<10)
	for range n {
		c := try(net.Dial("tcp", p.addr))
		defer c.Close()
		try(io.WriteString(c, "HEAD "+rules+" HTTP/1.1\r\nHost: bench\r\n\r\n"))
		try(c.Read(answer))
	}
	time.Sleep(3 * time.Second) // vitrine releases what the answers needed
	return (resident(p.cmd.Process.Pid, own) - before) / n
}

// startTimes starts vitrine several times, and returns how long it took to listen, or to answer
// with a document. The first start, which fills what is to be warm, does not count.
func (l *lab) startTimes(redis string, answer bool) []time.Duration {
	var all []time.Duration
	for i := range starts + 1 {
		p := l.startVitrine(redis)
		took := p.listening()
		if answer {
			get("http://"+p.addr+catalogue, nil)
			took = time.Since(p.began)
		}
		p.stop()
		if i > 0 {
			all = append(all, took)
		}
	}
	return all
}
