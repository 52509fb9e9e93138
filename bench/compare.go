package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
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
	// of how much of each contender's processor time vitrine may use; 0 for no goal
	bare, nginx, varnish float64
}

// estimated is the kind that the page reckons with.
const estimated = "6 KB compressed"

var kinds = []kind{
	{name: "2.6 KB identity", path: banners, size: 2600, status: 200, bare: 1, nginx: 1, varnish: 0.65},
	{name: "6 KB identity", path: rules, size: 6000, status: 200, bare: 1, nginx: 1, varnish: 0.65},
	{name: estimated, path: rules, size: 6000, fields: browser, status: 200, bare: 1, nginx: 1, varnish: 0.65},
	{name: "55 KB identity", path: catalogue, size: 55_000, status: 200, bare: 1, nginx: 1.15, varnish: 0.8},
	{name: "55 KB compressed", path: catalogue, size: 55_000, fields: browser, status: 200, bare: 1, nginx: 0.25, varnish: 0.65},
	{name: "304", path: catalogue, size: 55_000, status: 304, bare: 1, nginx: 1, varnish: 0.65},
	{name: "an unknown query", path: rules, size: 6000, fresh: true, status: 200, bare: 1, nginx: 1, varnish: 0.65},
	{name: "a repeated ordering", path: banners + "?ordering=-redirect_link_fr", size: 2600, status: 200, bare: 1},
}

// A side is a contender with what was found of it: asked as fast as it answers, and with pauses.
type side struct {
	*contender
	target       target
	loads, paced []load
}

func (s *side) cpu() time.Duration {
	return medianOf(s.loads, func(l load) time.Duration { return l.cpu })
}

// p99 is that of a server with time to spare. As fast as it answers, it would be the length of a queue.
func (s *side) p99() time.Duration {
	return medianOf(s.paced, func(l load) time.Duration { return l.p99 })
}

func (s *side) rate() float64 { return medianOf(s.loads, func(l load) float64 { return l.rate }) }

func medianOf[T int | float64 | time.Duration](loads []load, of func(load) T) T {
	var all []T
	for _, l := range loads {
		all = append(all, of(l))
	}
	return median(all)
}

// hits loads each kind of request at every contender.
func hits(l *lab, s settings, r *report) error {
	cost := table{Name: "hits", Head: []string{"case", "bytes", "nginx", "Varnish", "loop", "bare Fiber", "vitrine", "of nginx", "of Varnish", "of bare Fiber", "of the loop", ""}}
	others := table{Name: "hits-rates", Head: []string{"case", "", "nginx", "Varnish", "loop", "bare Fiber", "vitrine", "of the best other", ""}}
	loops := map[string]*span{"nginx": {}, "Varnish": {}, "vitrine": {}}
	for _, k := range kinds {
		sides, bytes, err := l.measure(k, s)
		if err != nil && !s.short { // here rather than in run: all kinds take minutes
			fmt.Fprintf(os.Stderr, "bench: %s: %v; again\n", k.name, err)
			sides, bytes, err = l.measure(k, s)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		by := map[string]*side{}
		for _, side := range sides {
			by[side.name] = side
		}
		own := by["vitrine"]
		cell := func(name string, of func(*side) string) string {
			if by[name] == nil {
				return ""
			}
			return of(by[name])
		}
		met, judged := true, false
		ratio := func(name string, goal float64) string {
			if by[name] == nil {
				return ""
			}
			got := float64(own.cpu()) / float64(by[name].cpu())
			if goal > 0 {
				met, judged = met && got <= goal+0.005, true
				return fmt.Sprintf("%.2f (goal %.2f)", got, goal)
			}
			return fmt.Sprintf("%.2f", got)
		}
		cpu := func(s *side) string { return micros(s.cpu()) }
		row := []string{k.name, fmt.Sprint(bytes), cell("nginx", cpu), cell("Varnish", cpu), cell("loop", cpu), cell("bare Fiber", cpu), cpu(own),
			ratio("nginx", k.nginx), ratio("Varnish", k.varnish), ratio("bare Fiber", k.bare), ratio("loop", 0)}
		if k.name == estimated {
			r.text("share", fmt.Sprintf("%.2f of a core at the %s µs above", 10_000*own.cpu().Seconds(), micros(own.cpu())))
		}
		for name, of := range loops {
			if by[name] != nil && !k.fresh { // nobody else holds what is new each time
				of.add(float64(by["loop"].cpu()) / float64(by[name].cpu()))
			}
		}
		verdict := ""
		if judged {
			verdict = judge(met)
		}
		cost.Rows = append(cost.Rows, append(row, verdict))
		rate := func(s *side) string { return fmt.Sprintf("%.0f", s.rate()) }
		p99 := func(s *side) string { return millis(s.p99()) }
		queue := func(s *side) string {
			return millis(medianOf(s.loads, func(l load) time.Duration { return l.p99 }))
		}
		best := time.Duration(0)
		for _, side := range sides {
			if side != own && side.name != "loop" && (best == 0 || side.p99() < best) {
				best = side.p99()
			}
		}
		others.Rows = append(others.Rows,
			[]string{k.name, "requests/s", cell("nginx", rate), cell("Varnish", rate), cell("loop", rate), cell("bare Fiber", rate), rate(own), "", ""},
			[]string{"", "p99 at full load, ms", cell("nginx", queue), cell("Varnish", queue), cell("loop", queue), cell("bare Fiber", queue), queue(own), "", ""},
			[]string{"", "p99 at 2,000 requests/s, ms", cell("nginx", p99), cell("Varnish", p99), cell("loop", p99), cell("bare Fiber", p99), p99(own),
				fmt.Sprintf("%.2f (goal 1.00)", float64(own.p99())/float64(best)), judge(own.p99() <= best)})
	}
	r.text("loop", fmt.Sprintf("But for the unknown query, it takes %s of nginx, %s of Varnish and %s of vitrine", loops["nginx"], loops["Varnish"], loops["vitrine"]))
	r.add(cost)
	r.add(others)
	return nil
}

// A span is from the least to the most of what was added.
type span struct{ least, most float64 }

func (s *span) add(x float64) {
	if s.most == 0 {
		s.least = x
	}
	s.least, s.most = min(s.least, x), max(s.most, x)
}

func (s *span) String() string { return fmt.Sprintf("%.2f to %.2f", s.least, s.most) }

func judge(good bool) string {
	if good {
		return "met"
	}
	return "missed"
}

// measure loads all contenders with one kind of request, in turn, and returns what vitrine's body takes on the wire.
func (l *lab) measure(k kind, s settings) (sides []*side, bytes int, err error) {
	path, _, ordered := cutQuery(k.path)
	if err := l.origin.set(path, k.size); err != nil {
		return nil, 0, err
	}
	p, err := started(l.startVitrine(embedded))
	if err != nil {
		return nil, 0, err
	}
	defer p.stop()
	contenders := []*contender{{"vitrine", p, "http://" + p.addr}}
	// The first answer is a miss, and makes what is prepared; the second is what every other looks like.
	var resp *http.Response
	var body []byte
	fields := k.fields
	for i := range 2 {
		if resp, body, err = get("http://"+p.addr+k.path, fields); err != nil {
			return nil, 0, err
		}
		if i == 0 && k.status == http.StatusNotModified {
			fields = append(fields, [2]string{"If-None-Match", resp.Header.Get("ETag")})
		}
	}
	if resp.StatusCode != k.status {
		return nil, 0, fmt.Errorf("vitrine answers %d", resp.StatusCode)
	}
	bare, loop, err := l.startRepeaters(path, resp, body)
	if err != nil {
		return nil, 0, err
	}
	defer bare.p.stop()
	defer loop.p.stop()
	contenders = append(contenders, loop, bare)
	if !ordered { // they do not order
		for _, start := range []func() (*contender, error){func() (*contender, error) { return l.startNginx("", "") }, l.startVarnish} {
			c, err := start()
			if err != nil {
				if s.short {
					continue // where there is only Go and wrk
				}
				return nil, 0, err
			}
			defer c.p.stop()
			contenders = append(contenders, c)
		}
	}
	_, document, err := get("http://"+p.addr+k.path, nil)
	if err != nil {
		return nil, 0, err
	}
	for _, c := range contenders {
		side := &side{contender: c, target: target{url: c.url + k.path, fields: fields}}
		if side.target.fields, err = l.alike(c, k, document); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", c.name, err)
		}
		sides = append(sides, side)
	}
	full, paced := "", pauses
	if k.fresh {
		full, paced = freshQueries, freshQueries+pauses
	}
	for round := range s.rounds + 1 {
		for script, loads := range map[string]func(*side) *[]load{
			full:  func(s *side) *[]load { return &s.loads },
			paced: func(s *side) *[]load { return &s.paced },
		} {
			for _, side := range sides {
				if side.target.script, err = l.script(script); err != nil {
					return nil, 0, err
				}
				got, err := wrk(side.p, side.target, s.connections, s.duration)
				if err != nil {
					return nil, 0, fmt.Errorf("%s: %w", side.name, err)
				}
				if round > 0 || s.short { // the first is to warm up
					to := loads(side)
					*to = append(*to, got)
				}
			}
		}
	}
	return sides, len(body), nil
}

// alike makes sure that a contender answers with the same content, and returns the fields to ask it with: a condition
// has its own entity-tag. Caches may have another spelling of the same JSON from the origin, by blanks alone.
func (l *lab) alike(c *contender, k kind, document []byte) ([][2]string, error) {
	fields := k.fields
	resp, body, err := get(c.url+k.path, fields)
	if err != nil {
		return nil, err
	}
	if k.status == http.StatusNotModified && resp.StatusCode == http.StatusOK {
		fields = append(fields[:len(fields):len(fields)], [2]string{"If-None-Match", resp.Header.Get("ETag")})
		again, _, err := get(c.url+k.path, fields)
		if err != nil {
			return nil, err
		}
		if again.StatusCode != k.status {
			return nil, fmt.Errorf("answers %d to a condition on its own tag", again.StatusCode)
		}
	} else if resp.StatusCode != k.status {
		return nil, fmt.Errorf("answers %d", resp.StatusCode)
	}
	if len(body) == 0 {
		return fields, nil // a 304 of the bare handler
	}
	var in io.Reader = bytes.NewReader(body)
	switch coding := resp.Header.Get("Content-Encoding"); coding {
	case "":
	case "gzip":
		if in, err = gzip.NewReader(in); err != nil {
			return nil, err
		}
	case "br":
		in = brotli.NewReader(in)
	default:
		return nil, fmt.Errorf("answers in %s", coding)
	}
	decoded, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if difference := len(decoded) - len(document); difference*20 > len(document) || -difference*20 > len(document) {
		return nil, fmt.Errorf("answers with %d bytes, vitrine with %d", len(decoded), len(document))
	}
	return fields, nil
}

// secureHits puts vitrine's TLS beside nginx's.
func secureHits(l *lab, s settings, r *report) error {
	certificate, key, err := l.writeCertificate()
	if err != nil {
		return err
	}
	t := table{Name: "tls", Head: []string{"case, over TLS 1.3, connections kept", "nginx", "vitrine", "of nginx", ""}}
	for _, k := range []kind{{path: banners, size: 2600, nginx: 1}, {path: catalogue, size: 55_000, nginx: 1.15}} {
		if err := l.origin.set(k.path, k.size); err != nil {
			return err
		}
		p, err := started(l.startVitrine(embedded, "--tls-cert-file", certificate, "--tls-key-file", key))
		if err != nil {
			return err
		}
		defer p.stop()
		nginx, err := l.startNginx(certificate, key)
		if err != nil {
			return err
		}
		defer nginx.p.stop()
		sides := []*side{{contender: nginx}, {contender: &contender{"vitrine", p, "https://" + p.addr}}}
		bytes := 0
		for round := range s.rounds + 1 {
			for _, side := range sides {
				side.target.url = side.url + k.path
				if round == 0 {
					_, body, err := get(side.target.url, nil)
					if err != nil {
						return err
					}
					bytes = len(body)
				}
				got, err := wrk(side.p, side.target, s.connections, s.duration+time.Second) // for the handshakes
				if err != nil {
					return fmt.Errorf("%s: %w", side.name, err)
				}
				if round > 0 {
					side.loads = append(side.loads, got)
				}
			}
		}
		ratio := float64(sides[1].cpu()) / float64(sides[0].cpu())
		t.Rows = append(t.Rows, []string{fmt.Sprintf("%d bytes identity", bytes), micros(sides[0].cpu()), micros(sides[1].cpu()),
			fmt.Sprintf("%.2f (goal %.2f)", ratio, k.nginx), judge(ratio <= k.nginx+0.005)})
	}
	r.add(t)
	return nil
}
