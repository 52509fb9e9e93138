package main

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// documents grows the document.
func documents(l *lab, s settings, r *report) error {
	t := table{Name: "documents", Head: []string{"document", "identity, us of CPU", "compressed, us", "fill, ms", "first answer after a purge, ms", "the same in brotli, ms", "brotli", "memory", "goal", ""}}
	identity, encoded, fill, memory := line{Name: "identity, us"}, line{Name: "compressed, us"}, line{Name: "first answer, ms"}, line{Name: "memory, MB"}
	for _, n := range []int{3000, 30_000, 300_000, 3_000_000, 50_000_000} {
		if err := l.origin.set(catalogue, n); err != nil {
			return err
		}
		redis, err := l.startRedis()
		if err != nil {
			return err
		}
		err = func() error {
			p, err := started(l.startVitrine("redis://"+redis.addr, "--upstream-max-bytes", "128MiB"))
			if err != nil {
				return err
			}
			defer p.stop()
			url := "http://" + p.addr + catalogue
			_, body, err := get(url, nil)
			if err != nil {
				return err
			}
			var first, inBrotli []time.Duration
			small := 0
			for _, coding := range []string{"identity", "identity", "br", "br"} {
				if err := purge(redis.addr, "vitrine:catalogue"); err != nil {
					return err
				}
				time.Sleep(100 * time.Millisecond) // every replica knows of it
				began := time.Now()
				_, got, err := get(url, [][2]string{{"Accept-Encoding", coding}})
				if err != nil {
					return err
				}
				if coding == "br" {
					inBrotli, small = append(inBrotli, time.Since(began)), len(got)
				} else {
					first = append(first, time.Since(began))
				}
			}
			began := time.Now()
			if _, _, err := get(l.origin.url+catalogue, nil); err != nil {
				return err
			}
			transfer := time.Since(began)
			seconds := 2 * time.Second
			plain, err := wrk(p, target{url: url}, min(s.connections, 8), seconds)
			if err != nil {
				return err
			}
			asked, err := wrk(p, target{url: url, fields: browser}, min(s.connections, 8), seconds)
			if err != nil {
				return err
			}
			held, allowed := resident(p.cmd.Process.Pid, own), 25_000_000+14*len(body)
			x := float64(len(body))
			for _, add := range []struct {
				to *line
				y  float64
			}{
				{&identity, float64(plain.cpu) / 1e3}, {&encoded, float64(asked.cpu) / 1e3},
				{&fill, float64(median(first)) / 1e6}, {&memory, float64(held) / 1e6},
			} {
				add.to.X, add.to.Y = append(add.to.X, x), append(add.to.Y, add.y)
			}
			t.Rows = append(t.Rows, []string{size(len(body)), micros(plain.cpu), micros(asked.cpu), millis(max(0, median(first)-transfer)),
				millis(median(first)), millis(median(inBrotli)), size(small), megabytes(held),
				megabytes(allowed), judge(held <= allowed)})
			return nil
		}()
		redis.stop()
		if err != nil {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
	}
	r.add(t)
	r.chart(chart{Name: "documents", X: "bytes of the document", Lines: []line{identity, encoded, fill, memory}})
	return nil
}

// purge deletes a key as redis-cli does.
func purge(redis, key string) error {
	c, err := net.Dial("tcp", redis)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = command(c, "DEL", key)
	return err
}

// command sends a command to Redis, and returns the first bytes of its answer.
func command(c net.Conn, words ...string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := c.Write([]byte(b.String())); err != nil {
		return "", err
	}
	answer := make([]byte, 64<<10)
	n, err := c.Read(answer)
	return string(answer[:n]), err
}

// connections grows how many there are, busy and idle.
func connections(l *lab, s settings, r *report) error {
	for path, n := range map[string]int{catalogue: 55_000, rules: 6000} {
		if err := l.origin.set(path, n); err != nil {
			return err
		}
	}
	t := table{Name: "connections", Head: []string{"connections", "busy: us of CPU", "requests/s", "p99, ms", "idle: memory", "for each (goal 6 KB)", ""}}
	cpu, p99, idle := line{Name: "CPU, us"}, line{Name: "p99, ms"}, line{Name: "idle, MB"}
	for _, n := range []int{1, 10, 100, 1000, 10_000} {
		each, err := l.idleConnection(n)
		if err != nil {
			return err
		}
		p, err := started(l.startVitrine(embedded))
		if err != nil {
			return err
		}
		got, err := wrk(p, target{url: "http://" + p.addr + rules}, n, max(2*time.Second, time.Duration(n/2500)*time.Second))
		p.stop()
		if err != nil {
			return err
		}
		x := float64(n)
		cpu.X, cpu.Y = append(cpu.X, x), append(cpu.Y, float64(got.cpu)/1e3)
		p99.X, p99.Y = append(p99.X, x), append(p99.Y, float64(got.p99)/1e6)
		memory, one, verdict := "", "", ""
		if n >= 1000 { // fewer cannot be told from everything else
			idle.X, idle.Y = append(idle.X, x), append(idle.Y, float64(each*n)/1e6)
			memory, one = megabytes(each*n), fmt.Sprintf("%.1f KB", float64(each)/1e3)
			verdict = judge(each <= 6000)
		}
		t.Rows = append(t.Rows, []string{fmt.Sprint(n), micros(got.cpu), fmt.Sprintf("%.0f", got.rate), millis(got.p99), memory, one, verdict})
	}
	r.add(t)
	r.chart(chart{Name: "connections", X: "connections", Lines: []line{cpu, p99, idle}})
	return nil
}
