package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// bannerFields are what banners can be ordered by.
var bannerFields = []string{
	"id", "title_en", "title_nl", "title_fr", "button_text_en", "button_text_nl", "button_text_fr", "redirect_link_en",
	"redirect_link_nl", "redirect_link_fr", "language_en", "language_nl", "language_fr", "created_at", "updated_at",
}

// neverSeen is a request for an ordering and an indentation that nobody asked for before.
func neverSeen(method string, random *rand.Rand) string {
	terms := append([]string{}, bannerFields...)
	random.Shuffle(len(terms), func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
	for i := range terms {
		if random.IntN(2) == 0 {
			terms[i] = "-" + terms[i]
		}
	}
	codings := []string{"br", "gzip", "zstd", "identity"}
	return fmt.Sprintf("%s %s?ordering=%s HTTP/1.1\r\nHost: bench\r\nAccept: application/json; indent=%d\r\nAccept-Encoding: %s\r\n\r\n",
		method, banners, strings.Join(terms, ","), random.IntN(9), codings[random.IntN(len(codings))])
}

// attack asks for what was never asked for, from many connections, and measures what it does to
// others.
func attack(l *lab, s settings, r *report) error {
	const size = 1_100_000
	if err := l.origin.set(banners, size); err != nil {
		return err
	}
	if err := l.origin.set(rules, 6000); err != nil {
		return err
	}
	allowed := 25_000_000 + 12*(size+6000+55_000)
	t := table{Name: "attack", Head: []string{"load beside 8 connections of ordinary hits", "answers/s", "hits' p99, ms", "times", "memory at most", "budget", ""}}
	var quiet time.Duration
	for _, c := range []struct {
		name, method string
		connections  int
		ordinary     bool
		slow         bool
	}{
		{"64 connections of ordinary HEAD, for comparison", http.MethodHead, 64, true, false},
		{"64, HEAD", http.MethodHead, 64, false, false},
		{"256, HEAD", http.MethodHead, 256, false, false},
		{"64, GET", http.MethodGet, 64, false, false},
		{"256, GET, and read slowly", http.MethodGet, 256, false, true},
	} {
		p, err := started(l.startVitrine(embedded))
		if err != nil {
			return err
		}
		for _, path := range []string{rules, banners} {
			if _, _, err := get("http://"+p.addr+path, nil); err != nil {
				p.stop()
				return err
			}
		}
		stop, answered := assail(p.addr, c.method, c.connections, c.ordinary, c.slow)
		most, watching := 0, make(chan struct{})
		var watch sync.WaitGroup
		watch.Go(func() {
			for tick := time.NewTicker(20 * time.Millisecond); ; {
				select {
				case <-tick.C:
					most = max(most, resident(p.cmd.Process.Pid, own))
				case <-watching:
					tick.Stop()
					return
				}
			}
		})
		var all []time.Duration
		began := time.Now()
		for range max(3, s.rounds/2) {
			var got load
			if got, err = wrk(p, target{url: "http://" + p.addr + rules}, 8, 2*time.Second); err != nil {
				break
			}
			all = append(all, got.p99)
		}
		rate := float64(answered.Load()) / time.Since(began).Seconds()
		stop()
		close(watching)
		watch.Wait()
		p.stop()
		if err != nil {
			return err
		}
		p99 := median(all)
		if c.ordinary {
			quiet = p99
			t.Rows = append(t.Rows, []string{c.name, fmt.Sprintf("%.0f", rate), millis(p99), "1", megabytes(most), "", ""})
			continue
		}
		times := float64(p99) / float64(quiet)
		t.Rows = append(t.Rows, []string{c.name, fmt.Sprintf("%.0f", rate), millis(p99), fmt.Sprintf("%.2f", times), megabytes(most),
			"3 times, " + megabytes(allowed), judge(times <= 3 && most <= allowed)})
	}
	r.add(t)
	return nil
}

// assail keeps connections busy, until stop is called. Those that read slowly take an answer a
// piece at a time.
func assail(addr, method string, connections int, ordinary, slow bool) (stop func(), answered *atomic.Int64) {
	done := make(chan struct{})
	answered = new(atomic.Int64)
	var all sync.WaitGroup
	for i := range connections {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				stopped := make(chan struct{})
				go func() {
					select {
					case <-done:
					case <-stopped:
					}
					c.Close()
				}()
				ask(c, method, ordinary, slow, random, answered)
				close(stopped)
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	return func() { close(done); all.Wait() }, answered
}

// ask asks over a connection until it ends.
func ask(c net.Conn, method string, ordinary, slow bool, random *rand.Rand, answered *atomic.Int64) {
	from := bufio.NewReaderSize(c, 4<<10)
	for {
		request := method + " " + rules + " HTTP/1.1\r\nHost: bench\r\n\r\n"
		if !ordinary {
			request = neverSeen(method, random)
		}
		if _, err := io.WriteString(c, request); err != nil {
			return
		}
		resp, err := http.ReadResponse(from, &http.Request{Method: method})
		if err != nil {
			return
		}
		for err == nil && slow {
			_, err = io.CopyN(io.Discard, resp.Body, 16<<10)
			time.Sleep(10 * time.Millisecond)
		}
		if !slow {
			_, err = io.Copy(io.Discard, resp.Body)
		}
		resp.Body.Close()
		if err != nil && err != io.EOF {
			return
		}
		answered.Add(1)
	}
}
