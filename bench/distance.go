package main

import (
	"fmt"
	"net"
	"slices"
	"time"
)

// distance grows the time to Redis and back.
func distance(l *lab, s settings, r *report) error {
	if err := l.origin.set(rules, rulesSize); err != nil {
		return err
	}
	t := table{Name: "distance", Head: []string{"to Redis and back", "purge bound", "us of CPU", "p99, ms", "purge to the replica, ms", "the worst of 10 (goal: the bound)", "first answer after a purge, ms", ""}}
	hit, delay := line{Name: "p99 of a hit, ms"}, line{Name: "purge delay, ms"}
	for _, far := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
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
			t.Rows = append(t.Rows, []string{millis(far) + " ms", bound.String(), micros(got.cpu), millis(got.p99), millis(median(delays)), millis(worst), millis(first), judge(worst <= bound)})
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
