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

// tagOf asks a replica for the rules, and returns their entity-tag.
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

// rulesSize is how large the rules are before a purge, and after an even number of them.
const rulesSize = 6000

// purgeDelays purges changed rules an even number of times, and returns how long after Redis's
// answer each replica had the new ones.
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
		if err := l.origin.set(rules, rulesSize*(2-i%2)); err != nil { // so that each differs from the one before
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
	if err := l.origin.set(rules, rulesSize); err != nil {
		return err
	}
	t := table{Name: "replicas", Head: []string{"replicas", "fetches in 6 s at a TTL of 1 s (at most 7)", "purge to a replica, median, ms (goal 5)", "the worst of 10 purges (goal 50)", "Redis commands/s when idle, those in scripts included", "for each", ""}}
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
			time.Sleep(3 * time.Second) // the purges were load, and a replica listens closely for a moment after
			rate, err := commandRate(redis.addr, 10*time.Second)
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
			worst := delays[len(delays)-1]
			good := fetched <= 7 && median(delays) <= 5*time.Millisecond && worst <= 50*time.Millisecond
			t.Rows = append(t.Rows, []string{fmt.Sprint(n), fmt.Sprint(fetched), millis(median(delays)), millis(worst),
				fmt.Sprintf("%.1f", rate), fmt.Sprintf("%.1f", rate/float64(n)), judge(good)})
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
