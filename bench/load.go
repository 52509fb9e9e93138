package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// budgetRatio is how much of a bare handler's throughput a hit has to reach.
const budgetRatio = 0.9

// A kind of request.
type kind struct {
	name   string
	target string
	fields [][2]string
	fresh  bool // each request has a query string of its own
	status int  // 0 is 200
}

var kinds = []kind{
	{name: "identity", target: "/cms/rules/"},
	{name: "identity, 64 KB", target: "/gvapp/"},
	{name: "gzip", target: "/gvapp/", fields: [][2]string{{"Accept-Encoding", "gzip"}}},
	{name: "brotli", target: "/gvapp/", fields: [][2]string{{"Accept-Encoding", "br"}}},
	{name: "zstd", target: "/gvapp/", fields: [][2]string{{"Accept-Encoding", "zstd"}}},
	{name: "304", target: "/gvapp/", fields: [][2]string{{"If-None-Match", "*"}}, status: 304},
	{name: "ordering seen before", target: "/gvapp/singlebanner?ordering=-redirect_link_fr"},
	{name: "query never seen before", target: "/cms/rules/", fresh: true},
	{name: "a browser's fetch", target: "/gvapp/", fields: [][2]string{
		{"Accept", "*/*"}, {"Accept-Encoding", "gzip, deflate, br, zstd"}, {"Accept-Language", "nl,en;q=0.5"},
		{"Origin", "https://shop.example"}, {"Referer", "https://shop.example/"}, {"User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"},
	}},
}

// A load is what one server did in all its runs.
type load struct {
	rates    []float64 // requests per second, of each run
	requests float64
	cpu      time.Duration // of the server
}

func (l *load) perSecond() float64 { return median(l.rates) }

// A result puts the two beside each other.
type result struct {
	bytes         int // of one body
	vitrine, bare load
}

// ratio is the median of the ratios of runs that followed each other.
func (r *result) ratio() float64 {
	ratios := make([]float64, len(r.vitrine.rates))
	for i := range ratios {
		ratios[i] = r.vitrine.rates[i] / r.bare.rates[i]
	}
	return median(ratios)
}

func (r *result) cpuRatio() float64 {
	return (r.vitrine.requests / r.vitrine.cpu.Seconds()) / (r.bare.requests / r.bare.cpu.Seconds())
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// measure loads both servers with one kind of request.
func (l *lab) measure(k kind, s settings) (result, error) {
	var r result
	vitrine, err := started(l.startVitrine("embedded:127.0.0.1:0"))
	if err != nil {
		return r, err
	}
	defer vitrine.stop()
	// The first answer is a miss, and makes what is prepared; the second is what every other looks like.
	var raw []byte
	for range 2 {
		var status int
		if status, r.bytes, raw, err = get(vitrine.addr, k.target, k.fields); err != nil {
			return r, err
		}
		if status != max(k.status, 200) {
			return r, fmt.Errorf("vitrine answers %d", status)
		}
	}
	bare, err := l.startBare(k, raw)
	if err != nil {
		return r, err
	}
	defer bare.stop()
	if err := alike(vitrine.addr, bare.addr, k); err != nil {
		return r, err
	}
	script, err := l.writeScript(k)
	if err != nil {
		return r, err
	}
	for i := range s.pairs + 1 {
		for _, side := range []struct {
			p    *process
			load *load
		}{{vitrine, &r.vitrine}, {bare, &r.bare}} {
			if i == 0 { // to warm up
				if _, err := wrk(side.p.addr, k, script, s.connections, time.Second); err != nil {
					return r, err
				}
				continue
			}
			if err := side.load.run(side.p, k, script, s); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// startBare starts the handler that repeats an answer.
func (l *lab) startBare(k kind, answer []byte) (*process, error) {
	file := filepath.Join(l.dir, "answer.http")
	if err := os.WriteFile(file, answer, 0o600); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	path, _, _ := strings.Cut(k.target, "?")
	return started(start(addr, self, "bare", addr, path, file))
}

// alike makes sure that both send the same: status, body, and as many bytes of fields, but for the digits of a moment.
func alike(vitrine, bare string, k kind) error {
	statusA, sizeA, rawA, err := get(vitrine, k.target, k.fields)
	if err != nil {
		return err
	}
	statusB, sizeB, rawB, err := get(bare, k.target, k.fields)
	if err != nil {
		return err
	}
	const digits = 32
	if difference := len(rawA) - len(rawB); statusA != statusB || sizeA != sizeB || difference > digits || -difference > digits {
		return fmt.Errorf("the two are not alike:\n%.1200s\n\n%.1200s", rawA, rawB)
	}
	return nil
}

// run loads a server once.
func (l *load) run(p *process, k kind, script string, s settings) error {
	before, err := cpuTime(p.cmd.Process.Pid)
	if err != nil {
		return err
	}
	m, err := wrk(p.addr, k, script, s.connections, s.duration)
	if err != nil {
		return err
	}
	after, err := cpuTime(p.cmd.Process.Pid)
	if err != nil {
		return err
	}
	l.rates = append(l.rates, m.rate)
	l.requests += m.requests
	l.cpu += after - before
	return nil
}

// writeScript writes what wrk sends where every request is another, "" where it is always the same.
func (l *lab) writeScript(k kind) (string, error) {
	if !k.fresh {
		return "", nil
	}
	file := filepath.Join(l.dir, "fresh.lua")
	return file, os.WriteFile(file, []byte(`
local n = 0
local seed = os.time()
request = function()
  n = n + 1
  return wrk.format("GET", wrk.path .. "?utm_id=" .. seed .. "-" .. n)
end
`), 0o600)
}

// A measured is what wrk reports.
type measured struct{ rate, requests float64 }

var (
	rateLine     = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	requestsLine = regexp.MustCompile(`([0-9]+) requests in `)
	badLine      = regexp.MustCompile(`(?m)^\s*(Non-2xx or 3xx responses|Socket errors): .*$`)
)

// wrk loads addr. An answer that is no success is an error.
func wrk(addr string, k kind, script string, connections int, d time.Duration) (measured, error) {
	seconds := max(1, int(d.Round(time.Second)/time.Second)) // wrk counts whole ones
	args := []string{"-t", "1", "-c", strconv.Itoa(connections), "-d", strconv.Itoa(seconds) + "s"}
	for _, f := range k.fields {
		args = append(args, "-H", f[0]+": "+f[1])
	}
	if script != "" {
		args = append(args, "-s", script)
	}
	name, args := shared("wrk", append(args, "http://"+addr+k.target))
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return measured{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	if bad := badLine.Find(out); bad != nil {
		return measured{}, fmt.Errorf("wrk: %s", strings.TrimSpace(string(bad)))
	}
	var m measured
	for line, to := range map[*regexp.Regexp]*float64{rateLine: &m.rate, requestsLine: &m.requests} {
		found := line.FindSubmatch(out)
		if found == nil {
			return m, fmt.Errorf("wrk says something else:\n%s", out)
		}
		if *to, err = strconv.ParseFloat(string(found[1]), 64); err != nil {
			return m, err
		}
	}
	return m, nil
}
