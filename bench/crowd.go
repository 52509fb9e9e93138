package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// crowdTTL is how long the rules are fresh beside the crowd.
const crowdTTL = time.Second

var detailField = regexp.MustCompile(`detail=([a-z-]+)`)

// crowd grows how many other processes want the processors, while hits are asked for at a low rate.
func crowd(l *lab, _ settings, r *report) error {
	const rate, lasting = 100, 5 * time.Second
	if err := l.origin.set(rules, rulesSize); err != nil {
		return err
	}
	redis, err := l.startRedis()
	if err != nil {
		return err
	}
	defer redis.stop()
	all, stop, err := l.replicate(1, redis.addr, "--ttl", crowdTTL.String())
	defer stop()
	if err != nil {
		return err
	}
	r.text("crowd", "The load average before was "+loadAverage()+".")
	most := int(lasting/crowdTTL) + 1
	t := table{Name: "crowd", Head: []string{"busy processes", "answers", "errors (goal 0)", "median, ms", "p99, ms", "looked at Redis", "`redis-away`", "stale", fmt.Sprintf("fetches in %v (at most %d)", lasting, most), ""}}
	middle, tail, looked := line{Name: "median, ms"}, line{Name: "p99, ms"}, line{Name: "looks, percent"}
	for _, n := range []int{0, 1, 2, 4, 8, 16, 32} {
		quit, err := busy(n)
		if err != nil {
			return err
		}
		before := l.origin.fetches.Load()
		got := steadily(all[0].addr, rate, lasting)
		fetched := int(l.origin.fetches.Load() - before)
		quit()
		share := func(detail string) float64 {
			return 100 * float64(got.details[detail]) / float64(max(1, len(got.took)))
		}
		p99 := got.took[len(got.took)*99/100]
		x := max(0.5, float64(n))
		middle.X, middle.Y = append(middle.X, x), append(middle.Y, float64(median(got.took))/1e6)
		tail.X, tail.Y = append(tail.X, x), append(tail.Y, float64(p99)/1e6)
		looked.X, looked.Y = append(looked.X, x), append(looked.Y, share("redis"))
		t.Rows = append(t.Rows, []string{fmt.Sprint(n), fmt.Sprint(len(got.took)), fmt.Sprint(got.failed), millis(median(got.took)), millis(p99),
			fmt.Sprintf("%.1f %%", share("redis")), fmt.Sprintf("%.1f %%", share("redis-away")), fmt.Sprintf("%.1f %%", share("stale-while-revalidate")),
			fmt.Sprint(fetched), judge(got.failed == 0 && fetched <= most)})
	}
	r.add(t)
	r.chart(chart{Name: "crowd", X: "busy processes (0.5 stands for none)", Lines: []line{middle, tail, looked}})
	return nil
}

// steady is what came of asking at a rate.
type steady struct {
	took    []time.Duration // sorted; from when a request was due
	failed  int
	details map[string]int // of Cache-Status
}

// steadily asks a replica for the rules at a rate, whether or not what it asked before was
// answered.
func steadily(addr string, rate int, lasting time.Duration) steady {
	got := steady{details: map[string]int{}}
	var mu sync.Mutex
	var asking sync.WaitGroup
	began := time.Now()
	for i := range rate * int(lasting/time.Second) {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(due))
		asking.Go(func() {
			detail, err := detailOf(addr)
			mu.Lock()
			defer mu.Unlock()
			got.took = append(got.took, time.Since(due))
			got.details[detail]++
			if err != nil {
				got.failed++
			}
		})
	}
	asking.Wait()
	slices.Sort(got.took)
	return got
}

// detailOf asks for the rules, and returns how the answer was obtained.
func detailOf(addr string) (string, error) {
	resp, err := quickly.Get("http://" + addr + rules)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return "", err
	}
	if resp.StatusCode != 200 {
		return "", fmt.Errorf("status %d", resp.StatusCode)
	}
	if m := detailField.FindStringSubmatch(strings.Join(resp.Header["Cache-Status"], ",")); m != nil {
		return m[1], nil
	}
	return "", nil
}

// busy starts n processes that compute until quit is called.
func busy(n int) (quit func(), err error) {
	var all []*exec.Cmd
	quit = func() {
		for _, c := range all {
			_ = c.Process.Kill()
			_ = c.Wait() // "signal: killed" is expected
		}
	}
	for range n {
		name, args := shared(os.Args[0], []string{"busy"})
		c := exec.Command(name, args...)
		c.Env = []string{"GOMAXPROCS=1"}
		if err := c.Start(); err != nil {
			quit()
			return nil, err
		}
		all = append(all, c)
	}
	return quit, nil
}

// compute is what a busy process does. It ends with its parent.
func compute() {
	parent := os.Getppid()
	for os.Getppid() == parent {
		for range 1 << 24 { //nolint:revive // on purpose
		}
	}
}
