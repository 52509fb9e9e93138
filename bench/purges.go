package main

import (
	"fmt"
	"net"
	"time"
)

// purges grows how often something is purged under load.
func purges(l *lab, s settings, r *report) error {
	if err := l.origin.set(rules, rulesSize); err != nil {
		return err
	}
	t := table{Name: "purges", Head: []string{"purges/s", "in 4 s", "requests/s", "us of CPU", "p99, ms", "fetches (at most one for each purge)", ""}}
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
			got, err := wrk(all[0], target{url: "http://" + all[0].addr + rules}, s.connections, 4*time.Second)
			close(ended)
			done := <-purged
			if err != nil {
				return err
			}
			rate.X, rate.Y = append(rate.X, max(0.1, float64(n))), append(rate.Y, got.rate)
			p99.X, p99.Y = append(p99.X, max(0.1, float64(n))), append(p99.Y, float64(got.p99)/1e3)
			fetched := int(l.origin.fetches.Load() - before)
			t.Rows = append(t.Rows, []string{fmt.Sprint(n), fmt.Sprint(done), fmt.Sprintf("%.0f", got.rate), micros(got.cpu), millis(got.p99),
				fmt.Sprint(fetched), judge(fetched <= done)})
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
