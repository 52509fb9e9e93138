package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// quickly asks over connections that are kept.
var quickly = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second}

// tagOf asks a replica for the rules, and returns their entity-tag.
func tagOf(addr string) string {
	resp := try(quickly.Get("http://" + addr + rules))
	defer resp.Body.Close()
	try(io.Copy(io.Discard, resp.Body))
	return resp.Header.Get("ETag")
}

// replicate starts n replicas on one Redis, and warms them.
func (l *lab) replicate(n int, redis string, more ...string) (all []*process, stop func()) {
	stop = func() {
		var ending sync.WaitGroup
		for _, p := range all {
			ending.Go(p.stop)
		}
		ending.Wait()
	}
	for range n {
		p := started(l.startVitrine("redis://"+redis, more...))
		all = append(all, p)
		tagOf(p.addr)
	}
	return all, stop
}

// rulesSize is how large the rules are before a purge, and after an even number of them.
const rulesSize = 6000

// purgeDelays purges changed rules an even number of times, and returns how long after Redis's
// answer each replica had the new ones. Before each purge it pauses.
func (l *lab) purgeDelays(all []*process, redis string, times int, pause time.Duration) (delays []time.Duration) {
	c := try(net.Dial("tcp", redis))
	defer c.Close()
	for i := range times {
		time.Sleep(pause)
		old := tagOf(all[0].addr)
		l.origin.set(rules, rulesSize*(2-i%2)) // each differs from the one before
		command(c, "DEL", "vitrine:rules")
		purged := time.Now()
		results := make(chan time.Duration, len(all))
		for _, p := range all {
			go func() {
				defer func() {
					if recover() != nil {
						results <- patience // it did not answer
					}
				}()
				asked := time.Now()
				for tagOf(p.addr) == old && time.Since(purged) < 5*time.Second {
					asked = time.Now()
				}
				results <- asked.Sub(purged) // this request waited for the fetch, which is not the purge's delay
			}()
		}
		for range all {
			delays = append(delays, <-results)
		}
	}
	return delays
}

var commandsLine = regexp.MustCompile(`total_commands_processed:([0-9]+)`)

// commandRate is how many commands Redis gets in a second while nothing happens.
func commandRate(redis string, d time.Duration) float64 {
	c := try(net.Dial("tcp", redis))
	defer c.Close()
	count := func() float64 {
		info := command(c, "INFO", "stats")
		m := commandsLine.FindStringSubmatch(info)
		if m == nil {
			panic(fmt.Errorf("INFO says %.200q", info))
		}
		return try(strconv.ParseFloat(m[1], 64))
	}
	before := count()
	began := time.Now()
	time.Sleep(d)
	return (count() - before - 1) / time.Since(began).Seconds()
}

// fleet grows the number of replicas on one Redis.
func fleet(l *lab, _ settings) []table {
	l.origin.set(rules, rulesSize)
	t := table{Name: "fleet", Head: []string{"replicas", "fetches in 6 s at a TTL of 1 s (7)", "purge to a replica, median, ms (10)", "the worst of 10 purges, ms (50)", "Redis commands/s, idle", "budget"}}
	for _, n := range []int{1, 2, 4, 8} {
		t.Rows = append(t.Rows, l.fleetOf(n))
	}
	return []table{t}
}

func (l *lab) fleetOf(n int) []string {
	redis := l.startRedis()
	defer redis.stop()
	all, stop := l.replicate(n, redis.addr)
	defer stop()
	delays := l.purgeDelays(all, redis.addr, 10, 0)
	time.Sleep(3 * time.Second) // the purges were load, and a busy replica polls more often for a moment after
	rate := commandRate(redis.addr, 10*time.Second)
	stop()
	short, stopShort := l.replicate(n, redis.addr, "VITRINE_TTL=1s", "VITRINE_REDIS_PREFIX=other:")
	defer stopShort()
	before := l.origin.fetches.Load()
	for began := time.Now(); time.Since(began) < 6*time.Second; time.Sleep(5 * time.Millisecond) {
		for _, p := range short {
			tagOf(p.addr)
		}
	}
	fetched, worst := l.origin.fetches.Load()-before, slices.Max(delays)
	good := fetched <= 7 && median(delays) <= 10*time.Millisecond && worst <= 50*time.Millisecond
	return []string{fmt.Sprint(n), fmt.Sprint(fetched), millis(median(delays)), millis(worst), fmt.Sprintf("%.1f", rate), judge(good)}
}

// purges is how often a purge is measured to a visitor.
const purges = 20

// purge measures from Redis's answer to DEL to the first answer of a notified Varnish with the new
// content, with a CMS that answers after 50 ms, as docs/deploy/proxies/varnish.vcl configures it.
func purge(l *lab, _ settings) []table {
	redis := l.startRedis()
	defer redis.stop()
	visitors, purgers := freeAddress(), freeAddress()
	settings := filepath.Join(l.dir, "notify.yaml")
	check(os.WriteFile(settings, []byte("http: {cdn_max_age: 1h}\nnotify: [{name: edge, preset: varnish, url: \"http://"+purgers+"\"}]\n"), 0o600))
	l.origin.set(rules, rulesSize)
	p := started(l.startVitrine("redis://"+redis.addr, "VITRINE_CONFIG="+settings))
	defer p.stop()
	program := find("varnishd", "varnish gcc")
	vcl := try(os.ReadFile("../docs/deploy/proxies/varnish.vcl"))
	_, port, _ := strings.Cut(p.addr, ":")
	file := filepath.Join(l.dir, "edge.vcl")
	check(os.WriteFile(file, bytes.Replace(vcl, []byte("8080"), []byte(port), 1), 0o600))
	edge := started(start(visitors, program, nil, "-F", "-j", "none", "-T", "none", "-n", filepath.Join(l.dir, "edge"),
		"-a", "visitors="+visitors, "-a", "tellers="+purgers, "-f", file, "-s", "malloc,64m", "-p", "http_gzip_support=off"))
	defer edge.stop()
	l.origin.delay.Store(int64(50 * time.Millisecond))
	defer l.origin.delay.Store(0)
	tagOf(visitors)
	l.purgeDelays([]*process{edge}, redis.addr, 2, 4*time.Second)                // vitrine began before Varnish, and waits before it notifies it again
	delays := l.purgeDelays([]*process{edge}, redis.addr, purges, 2*time.Second) // an endpoint is notified once a second at most
	worst := slices.Max(delays)
	return []table{{Name: "purge", Head: []string{"purge to the first visitor behind Varnish, median, ms", fmt.Sprintf("the worst of %d, ms (500)", purges), "budget"},
		Rows: [][]string{{millis(median(delays)), millis(worst), judge(worst <= 500*time.Millisecond)}}}}
}

// command sends a command to Redis, and returns the first bytes of its answer.
func command(c net.Conn, words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	try(c.Write([]byte(b.String())))
	answer := make([]byte, 64<<10)
	return string(answer[:try(c.Read(answer))])
}
