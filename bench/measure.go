package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// family are a process and its descendants: nginx and Varnish work in children.
func family(pid int) []int {
	all := []int{pid}
	entries, _ := filepath.Glob("/proc/[0-9]*/stat")
	parents := map[int]int{}
	for _, e := range entries {
		raw, err := os.ReadFile(e)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(e)))
		parents[child], _ = strconv.Atoi(fields[1])
	}
	for i := 0; i < len(all); i++ {
		for child, parent := range parents {
			if parent == all[i] {
				all = append(all, child)
			}
		}
	}
	return all
}

// cpuTime is how much processor time a process and its descendants have had, by the nanosecond.
func cpuTime(pid int) (total time.Duration) {
	for _, p := range family(pid) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p))
		for _, t := range tasks {
			raw, err := os.ReadFile(t)
			if err != nil {
				continue
			}
			first, _, _ := strings.Cut(string(raw), " ")
			ns, _ := strconv.ParseInt(first, 10, 64)
			total += time.Duration(ns)
		}
	}
	return total
}

// resident reads one of the sizes that Linux knows of a process, in bytes.
func resident(pid int, name string) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, name); ok {
			kilobytes, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), " kB"))
			return kilobytes << 10
		}
	}
	return 0
}

// own is what belongs to a process alone: the pages of its executable, which the system shares and
// can drop, do not.
const own = "RssAnon:"

// A load is what wrk found in one run.
type load struct {
	requests float64
	rate     float64 // per second
	p50, p99 time.Duration
	cpu      time.Duration // of the server, for each request
}

var (
	rateLine     = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	requestsLine = regexp.MustCompile(`([0-9]+) requests in `)
	p50Line      = regexp.MustCompile(`(?m)^\s*50%\s+(\S+)\s*$`)
	p99Line      = regexp.MustCompile(`(?m)^\s*99%\s+(\S+)\s*$`)
	badLine      = regexp.MustCompile(`(?m)^\s*(Non-2xx or 3xx responses|Socket errors): .*$`)
)

// A target is what wrk asks for.
type target struct {
	url    string
	fields [][2]string
	script string // a file of wrk's; empty for none
}

// wrk loads a server. An answer that is no success is an error. On a busy machine a load may pass
// without a single answer, and is repeated.
func wrk(p *process, t target, connections int, d time.Duration) (got load, err error) {
	for range 3 {
		if got, err = wrkOnce(p, t, connections, d); !errors.Is(err, errNoAnswer) {
			break
		}
	}
	return got, err
}

var errNoAnswer = errors.New("no request was answered")

func wrkOnce(p *process, t target, connections int, d time.Duration) (load, error) {
	seconds := max(1, int(d.Round(time.Second)/time.Second)) // wrk counts whole ones
	args := []string{"-t", "1", "-c", strconv.Itoa(connections), "-d", strconv.Itoa(seconds) + "s", "--latency", "--timeout", "10s"}
	for _, f := range t.fields {
		args = append(args, "-H", f[0]+": "+f[1])
	}
	if t.script != "" {
		args = append(args, "-s", t.script)
	}
	name, args := shared("wrk", append(args, t.url))
	before := cpuTime(p.cmd.Process.Pid)
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return load{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	used := cpuTime(p.cmd.Process.Pid) - before
	if bad := badLine.Find(out); bad != nil {
		return load{}, fmt.Errorf("wrk: %s: %s", t.url, strings.TrimSpace(string(bad)))
	}
	var m load
	for line, to := range map[*regexp.Regexp]*float64{rateLine: &m.rate, requestsLine: &m.requests} {
		found := line.FindSubmatch(out)
		if found == nil {
			return m, fmt.Errorf("wrk says something else:\n%s", out)
		}
		if *to, err = strconv.ParseFloat(string(found[1]), 64); err != nil {
			return m, err
		}
	}
	for line, to := range map[*regexp.Regexp]*time.Duration{p50Line: &m.p50, p99Line: &m.p99} {
		found := line.FindSubmatch(out)
		if found == nil {
			return m, fmt.Errorf("wrk has no latencies:\n%s", out)
		}
		if *to, err = time.ParseDuration(string(found[1])); err != nil {
			return m, err
		}
	}
	if m.requests == 0 {
		return m, fmt.Errorf("wrk: %s: %w", t.url, errNoAnswer)
	}
	m.cpu = time.Duration(float64(used) / m.requests)
	return m, nil
}

// What wrk runs: each request is another, and each connection pauses before its next request, 16 ms
// on average.
const (
	freshQueries = `
local n = 0
local seed = tostring(os.time()) .. tostring({}):sub(8)
request = function()
  n = n + 1
  return wrk.format("GET", wrk.path .. "?utm_id=" .. seed .. "-" .. n)
end
`
	pauses = `
delay = function() return math.random(8, 24) end
`
)

// script writes a file for wrk; none if there is nothing to write.
func (l *lab) script(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	file := filepath.Join(l.dir, "wrk.lua")
	return file, os.WriteFile(file, []byte(text), 0o600)
}

func median[T int | float64 | time.Duration](all []T) T {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func micros(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/1000) }

func millis(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/1e6) }

func megabytes(n int) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func size(n int) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.3g MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.3g KB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d B", n)
}

// describeMachine says what was measured on.
func describeMachine(l *lab) string {
	first := func(program string, args ...string) string {
		out, _ := exec.Command(program, args...).CombinedOutput()
		line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return line
	}
	model := "unknown processor"
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(raw); m != nil {
			model = string(m[1])
		}
	}
	version := func(name, program string, args ...string) string {
		out, _ := exec.Command(program, args...).CombinedOutput()
		return name + " " + string(regexp.MustCompile(`[0-9]+\.[0-9]+\.[0-9]+`).Find(out))
	}
	return fmt.Sprintf("%s, %d cores (two are used), Linux %s, %s, %s, %s, %s, %s, vitrine %s. The load average before was %s.",
		model, runtime.NumCPU(), first("uname", "-r"), version("Go", "go", "version"), version("nginx", "nginx", "-v"), version("Varnish", "varnishd", "-V"),
		version("Redis", "redis-server", "--version"), version("wrk", "wrk", "-v"), first("git", "rev-parse", "--short", "HEAD"), loadAverage())
}

// awaitQuiet waits, for three minutes at most, until the load average no longer shows what compiling
// the programs took.
func awaitQuiet() {
	for range 18 {
		if load, err := strconv.ParseFloat(loadAverage(), 64); err != nil || load < 0.5 {
			return
		}
		time.Sleep(10 * time.Second)
	}
}

// loadAverage is that of the last minute.
func loadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	average, _, _ := strings.Cut(string(raw), " ")
	return average
}

func cutQuery(target string) (path, query string, ok bool) {
	for i := range target {
		if target[i] == '?' {
			return target[:i], target[i+1:], true
		}
	}
	return target, "", false
}
