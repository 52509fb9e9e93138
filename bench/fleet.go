package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// quickly asks over connections that are kept.
var quickly = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second}

// age asks a replica for the rules, and returns their entity-tag.
func tagOf(addr string) (string, error) {
	resp, err := quickly.Get("http://" + addr + rules)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.Header.Get("ETag"), err
}

// replicate starts n replicas on one Redis, and warms them.
func (l *lab) replicate(n int, redis string, flags ...string) (all []*process, stop func(), err error) {
	stop = func() {
		var ending sync.WaitGroup
		for _, p := range all {
			ending.Go(p.stop)
		}
		ending.Wait()
	}
	for range n {
		p, err := started(l.startVitrine("redis://"+redis, flags...))
		if err != nil {
			return all, stop, err
		}
		all = append(all, p)
		if _, err := tagOf(p.addr); err != nil {
			return all, stop, err
		}
	}
	return all, stop, nil
}

// purgeDelays purges changed rules a few times, and returns how long after Redis's answer each replica had the new ones.
func (l *lab) purgeDelays(all []*process, redis string, times int) (delays []time.Duration, err error) {
	c, err := net.Dial("tcp", redis)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for i := range times {
		old, err := tagOf(all[0].addr)
		if err != nil {
			return nil, err
		}
		if err := l.origin.set(rules, 6000+300*(i%2+1)); err != nil {
			return nil, err
		}
		if _, err := command(c, "DEL", "vitrine:rules"); err != nil {
			return nil, err
		}
		purged := time.Now()
		results := make(chan error, len(all))
		var mu sync.Mutex
		for _, p := range all {
			go func() {
				for time.Since(purged) < 5*time.Second {
					asked := time.Now()
					tag, err := tagOf(p.addr)
					if err != nil {
						results <- err
						return
					}
					if tag != old { // whoever asked now had to wait for the fetch: that is not the purge's delay
						mu.Lock()
						delays = append(delays, asked.Sub(purged))
						mu.Unlock()
						results <- nil
						return
					}
				}
				results <- fmt.Errorf("a replica has the old rules after 5 s")
			}()
		}
		for range all {
			if err := <-results; err != nil {
				return nil, err
			}
		}
	}
	return delays, nil
}

var commandsLine = regexp.MustCompile(`total_commands_processed:([0-9]+)`)

// commandRate is how many commands Redis gets in a second while nothing happens.
func commandRate(redis string, d time.Duration) (float64, error) {
	c, err := net.Dial("tcp", redis)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	count := func() (float64, error) {
		info, err := command(c, "INFO", "stats")
		if err != nil {
			return 0, err
		}
		m := commandsLine.FindStringSubmatch(info)
		if m == nil {
			return 0, fmt.Errorf("INFO says %.200q", info)
		}
		return strconv.ParseFloat(m[1], 64)
	}
	before, err := count()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	time.Sleep(d)
	after, err := count()
	return (after - before - 1) / time.Since(began).Seconds(), err
}

// replicas grows the fleet.
func replicas(l *lab, s settings, r *report) error {
	t := table{Name: "replicas", Head: []string{"replicas", "fetches in 6 s at a TTL of 1 s", "purge to the last replica, ms", "the worst of 10", "Redis commands/s when idle", "for each"}}
	delay, commands := line{Name: "purge delay, ms"}, line{Name: "commands/s"}
	for _, n := range []int{1, 2, 4, 8} {
		redis, err := l.startRedis()
		if err != nil {
			return err
		}
		err = func() error {
			all, stop, err := l.replicate(n, redis.addr)
			defer stop()
			if err != nil {
				return err
			}
			delays, err := l.purgeDelays(all, redis.addr, 10)
			if err != nil {
				return err
			}
			rate, err := commandRate(redis.addr, 3*time.Second)
			if err != nil {
				return err
			}
			stop()
			short, stopShort, err := l.replicate(n, redis.addr, "--ttl", "1s", "--redis-prefix", "other:")
			defer stopShort()
			if err != nil {
				return err
			}
			before := l.origin.fetches.Load()
			for began := time.Now(); time.Since(began) < 6*time.Second; time.Sleep(5 * time.Millisecond) {
				for _, p := range short {
					if _, err := tagOf(p.addr); err != nil {
						return err
					}
				}
			}
			fetched := l.origin.fetches.Load() - before
			slices.Sort(delays)
			delay.X, delay.Y = append(delay.X, float64(n)), append(delay.Y, float64(delays[len(delays)-1])/1e6)
			commands.X, commands.Y = append(commands.X, float64(n)), append(commands.Y, rate)
			t.Rows = append(t.Rows, []string{fmt.Sprint(n), fmt.Sprint(fetched), millis(median(delays)), millis(delays[len(delays)-1]),
				fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.0f", rate/float64(n))})
			return nil
		}()
		redis.stop()
		if err != nil {
			return fmt.Errorf("%d: %w", n, err)
		}
	}
	r.add(t)
	r.chart(chart{Name: "replicas", X: "replicas", Lines: []line{delay, commands}})
	return nil
}

// purges grows how often something is purged under load.
func purges(l *lab, s settings, r *report) error {
	if err := l.origin.set(rules, 6000); err != nil {
		return err
	}
	t := table{Name: "purges", Head: []string{"purges/s", "done", "requests/s", "us of CPU", "p99, ms", "fetches/s"}}
	rate, p99 := line{Name: "requests/s"}, line{Name: "p99, us"}
	for _, n := range []int{0, 1, 10, 100, 1000} {
		redis, err := l.startRedis()
		if err != nil {
			return err
		}
		err = func() error {
			all, stop, err := l.replicate(1, redis.addr)
			defer stop()
			if err != nil {
				return err
			}
			c, err := net.Dial("tcp", redis.addr)
			if err != nil {
				return err
			}
			defer c.Close()
			ended, purged := make(chan struct{}), make(chan int)
			go func() {
				count := 0
				defer func() { purged <- count }()
				if n == 0 {
					<-ended
					return
				}
				tick := time.NewTicker(time.Second / time.Duration(n))
				defer tick.Stop()
				for {
					select {
					case <-tick.C:
						if _, err := command(c, "DEL", "vitrine:rules"); err != nil {
							return
						}
						count++
					case <-ended:
						return
					}
				}
			}()
			before := l.origin.fetches.Load()
			const seconds = 4
			got, err := wrk(all[0], target{url: "http://" + all[0].addr + rules}, s.connections, seconds*time.Second)
			close(ended)
			done := <-purged
			if err != nil {
				return err
			}
			rate.X, rate.Y = append(rate.X, max(0.1, float64(n))), append(rate.Y, got.rate)
			p99.X, p99.Y = append(p99.X, max(0.1, float64(n))), append(p99.Y, float64(got.p99)/1e3)
			t.Rows = append(t.Rows, []string{fmt.Sprint(n), fmt.Sprint(done), fmt.Sprintf("%.0f", got.rate), micros(got.cpu), millis(got.p99),
				fmt.Sprintf("%.0f", float64(l.origin.fetches.Load()-before)/seconds)})
			return nil
		}()
		redis.stop()
		if err != nil {
			return fmt.Errorf("%d: %w", n, err)
		}
	}
	r.add(t)
	r.chart(chart{Name: "purges", X: "purges a second (0.1 stands for none)", Lines: []line{rate, p99}})
	return nil
}

// distance grows the time to Redis and back.
func distance(l *lab, s settings, r *report) error {
	if err := l.origin.set(rules, 6000); err != nil {
		return err
	}
	t := table{Name: "distance", Head: []string{"to Redis and back", "purge bound", "us of CPU", "p99, ms", "purge to the replica, ms", "the worst of 10", "first answer after a purge, ms"}}
	hit, delay := line{Name: "p99 of a hit, ms"}, line{Name: "purge delay, ms"}
	for _, far := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond} {
		redis, err := l.startRedis()
		if err != nil {
			return err
		}
		err = func() error {
			addr, stopTunnel, err := tunnel(redis.addr, far/2)
			if err != nil {
				return err
			}
			defer stopTunnel()
			bound := max(50*time.Millisecond, 4*far+50*time.Millisecond)
			var flags []string
			if l.has("--redis-purge-bound") {
				flags = []string{"--redis-purge-bound", bound.String()}
			}
			all, stop, err := l.replicate(1, addr, flags...)
			defer stop()
			if err != nil {
				return err
			}
			got, err := wrk(all[0], target{url: "http://" + all[0].addr + rules}, s.connections, 2*time.Second)
			if err != nil {
				return err
			}
			delays, err := l.purgeDelays(all, redis.addr, 10)
			if err != nil {
				return err
			}
			if err := purge(redis.addr, "vitrine:rules"); err != nil {
				return err
			}
			time.Sleep(bound)
			began := time.Now()
			if _, err := tagOf(all[0].addr); err != nil {
				return err
			}
			first := time.Since(began)
			slices.Sort(delays)
			worst := delays[len(delays)-1]
			x := max(0.1, float64(far)/1e6)
			hit.X, hit.Y = append(hit.X, x), append(hit.Y, float64(got.p99)/1e6)
			delay.X, delay.Y = append(delay.X, x), append(delay.Y, float64(worst)/1e6)
			t.Rows = append(t.Rows, []string{millis(far) + " ms", bound.String(), micros(got.cpu), millis(got.p99), millis(median(delays)), millis(worst), millis(first)})
			return nil
		}()
		redis.stop()
		if err != nil {
			return fmt.Errorf("%v: %w", far, err)
		}
	}
	r.add(t)
	r.chart(chart{Name: "distance", X: "ms to Redis and back (0.1 stands for none)", Lines: []line{hit, delay}})
	return nil
}

// tunnel forwards connections to addr, each byte later by delay, in both directions.
func tunnel(addr string, delay time.Duration) (at string, stop func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	go func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", addr)
			if err != nil {
				near.Close()
				continue
			}
			go late(far, near, delay)
			go late(near, far, delay)
		}
	}()
	return ln.Addr().String(), func() { ln.Close() }, nil
}

// late copies from one connection to another, later by delay.
func late(to, from net.Conn, delay time.Duration) {
	defer to.Close()
	type piece struct {
		due   time.Time
		bytes []byte
	}
	pieces := make(chan piece, 1024)
	go func() {
		defer close(pieces)
		for {
			b := make([]byte, 32<<10)
			n, err := from.Read(b)
			if n > 0 {
				pieces <- piece{time.Now().Add(delay), b[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.bytes); err != nil {
			from.Close()
			for range pieces { // until the reader has ended
			}
			return
		}
	}
}
