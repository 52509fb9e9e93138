package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/andybalholm/brotli"
)

// browser is what a browser sends with a fetch of another origin's page.
var browser = [][2]string{
	{"Accept", "*/*"}, {"Accept-Encoding", "gzip, deflate, br, zstd"}, {"Accept-Language", "nl,en;q=0.5"},
	{"Origin", "https://shop.example"}, {"Referer", "https://shop.example/"},
	{"User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"},
}

// A kind of request, and the size of the document that it is for.
type kind struct {
	name   string
	path   string
	size   int // bytes, about
	fields [][2]string
	fresh  bool // each request has a query string of its own
	status int
	// the most of each contender's processor time that vitrine may use
	bare, nginx, varnish float64
}

var kinds = []kind{
	{name: "2.6 KB identity", path: banners, size: 2600, status: 200, bare: 1.05, nginx: 1, varnish: 0.65},
	{name: "6 KB identity", path: rules, size: 6000, status: 200, bare: 1.05, nginx: 1, varnish: 0.65},
	{name: "6 KB compressed", path: rules, size: 6000, fields: browser, status: 200, bare: 1.05, nginx: 1, varnish: 0.65},
	{name: "55 KB identity", path: catalogue, size: 55_000, status: 200, bare: 1.05, nginx: 1.2, varnish: 0.8},
	{name: "55 KB compressed", path: catalogue, size: 55_000, fields: browser, status: 200, bare: 1.05, nginx: 0.25, varnish: 0.65},
	{name: "304", path: catalogue, size: 55_000, status: 304, bare: 1.05, nginx: 1, varnish: 0.65},
	{name: "an unknown query", path: rules, size: 6000, fresh: true, status: 200, bare: 1.05, nginx: 1, varnish: 0.65},
	{name: "a repeated ordering", path: banners + "?ordering=-redirect_link_fr", size: 2600, status: 200, bare: 1.05},
}

// A side is a contender with what was measured of it, asked as fast as it answers.
type side struct {
	*contender
	target target
	loads  []load
}

func (s *side) cpu() time.Duration {
	return medianOf(s.loads, func(l load) time.Duration { return l.cpu })
}

func medianOf(loads []load, of func(load) time.Duration) time.Duration {
	var all []time.Duration
	for _, l := range loads {
		all = append(all, of(l))
	}
	return median(all)
}

// hits loads each kind of request at every contender.
func hits(l *lab, s settings) []table {
	cost := table{Name: "hits", Head: []string{"case", "nginx", "Varnish", "bare Fiber", "vitrine", "of nginx", "of Varnish", "of bare Fiber", "budget"}}
	waits := table{Name: "p99", Head: []string{"case", "nginx", "Varnish", "bare Fiber", "vitrine"}}
	for _, k := range kinds {
		var by map[string]*side
		twice(k.name, func() { by = l.measure(k, s) }) // all kinds take minutes
		own, met := by["vitrine"].cpu(), true
		costs, p99s := []string{k.name}, []string{k.name}
		for _, name := range cost.Head[1:5] {
			side := by[name]
			if side == nil {
				costs, p99s = append(costs, ""), append(p99s, "")
				continue
			}
			costs = append(costs, micros(side.cpu()))
			p99s = append(p99s, millis(medianOf(side.loads, func(l load) time.Duration { return l.p99 })))
		}
		for i, most := range []float64{k.nginx, k.varnish, k.bare} {
			side := by[cost.Head[i+1]]
			if side == nil {
				costs = append(costs, "")
				continue
			}
			ratio := float64(own) / float64(side.cpu())
			met = met && ratio <= most+0.005
			costs = append(costs, fmt.Sprintf("%.2f (%.2f)", ratio, most))
		}
		cost.Rows = append(cost.Rows, append(costs, judge(met)))
		waits.Rows = append(waits.Rows, p99s)
	}
	return []table{cost, waits}
}

// measure loads all contenders with one kind of request, in turn.
func (l *lab) measure(k kind, s settings) map[string]*side {
	path, _, ordered := strings.Cut(k.path, "?")
	l.origin.set(path, k.size)
	p := started(l.startVitrine(embedded))
	defer p.stop()
	contenders := []*contender{{"vitrine", p, "http://" + p.addr}}
	// The first answer is a miss, and makes what is prepared; the second is what every other looks like.
	var resp *http.Response
	var body []byte
	fields := k.fields
	for i := range 2 {
		resp, body = get("http://"+p.addr+k.path, fields)
		if i == 0 && k.status == http.StatusNotModified {
			fields = append(fields, [2]string{"If-None-Match", resp.Header.Get("ETag")})
		}
	}
	if resp.StatusCode != k.status {
		panic(fmt.Errorf("vitrine answers %d", resp.StatusCode))
	}
	starts := []func() *contender{func() *contender { return l.startBare(path, resp, body) }}
	if !ordered { // they do not order
		starts = append(starts, l.startNginx, l.startVarnish)
	}
	for _, start := range starts {
		c := start()
		defer c.p.stop()
		contenders = append(contenders, c)
	}
	_, document := get("http://"+p.addr+k.path, nil)
	script := ""
	if k.fresh {
		script = try(l.script(freshQueries))
	}
	sides := map[string]*side{}
	for _, c := range contenders {
		sides[c.name] = &side{contender: c, target: target{c.url + k.path, l.alike(c, k, document), script}}
	}
	for round := range s.rounds + 1 {
		for _, c := range contenders {
			side := sides[c.name]
			got := wrk(side.p, side.target, s.connections, s.duration)
			if round > 0 { // the first is to warm up
				side.loads = append(side.loads, got)
			}
		}
	}
	return sides
}

// alike makes sure that a contender answers with the same content, and returns the fields to ask it with: a condition
// has its own entity-tag. Caches may have another spelling of the same JSON from the origin, by blanks alone.
func (l *lab) alike(c *contender, k kind, document []byte) [][2]string {
	fields := k.fields
	resp, body := get(c.url+k.path, fields)
	if k.status == http.StatusNotModified && resp.StatusCode == http.StatusOK {
		fields = append(fields[:len(fields):len(fields)], [2]string{"If-None-Match", resp.Header.Get("ETag")})
		if again, _ := get(c.url+k.path, fields); again.StatusCode != k.status {
			panic(fmt.Errorf("%s does not answer 304 to its own tag", c.name))
		}
	} else if resp.StatusCode != k.status {
		panic(fmt.Errorf("%s answers %d", c.name, resp.StatusCode))
	}
	if len(body) == 0 {
		return fields // a 304 of the bare handler
	}
	var in io.Reader = bytes.NewReader(body)
	switch coding := resp.Header.Get("Content-Encoding"); coding {
	case "":
	case "gzip":
		in = try(gzip.NewReader(in))
	case "br":
		in = brotli.NewReader(in)
	default:
		panic(fmt.Errorf("%s answers in %s", c.name, coding))
	}
	decoded := try(io.ReadAll(in))
	if difference := len(decoded) - len(document); difference*20 > len(document) || -difference*20 > len(document) {
		panic(fmt.Errorf("%s answers with %d bytes, vitrine with %d", c.name, len(decoded), len(document)))
	}
	return fields
}
