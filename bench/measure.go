package main

import (
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
	p99      time.Duration
	cpu      time.Duration // of the server, for each request
}

var (
	requestsLine = regexp.MustCompile(`([0-9]+) requests in `)
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
func wrk(p *process, t target, connections int, d time.Duration) (got load) {
	for range 3 {
		if got = wrkOnce(p, t, connections, d); got.requests > 0 {
			return got
		}
	}
	panic(fmt.Errorf("wrk: %s: no request was answered", t.url))
}

func wrkOnce(p *process, t target, connections int, d time.Duration) (m load) {
	seconds := max(1, int(d.Round(time.Second)/time.Second)) // wrk counts whole ones
	args := []string{"-t", "1", "-c", strconv.Itoa(connections), "-d", strconv.Itoa(seconds) + "s", "--latency", "--timeout", "10s"}
	for _, f := range t.fields {
		args = append(args, "-H", f[0]+": "+f[1])
	}
	if t.script != "" {
		args = append(args, "-s", t.script)
	}
	before := cpuTime(p.cmd.Process.Pid)
	out, err := exec.Command("wrk", append(args, t.url)...).CombinedOutput()
	if err != nil {
		panic(fmt.Errorf("wrk: %w\n%s", err, out))
	}
	used := cpuTime(p.cmd.Process.Pid) - before
	if bad := badLine.Find(out); bad != nil {
		panic(fmt.Errorf("wrk: %s: %s", t.url, strings.TrimSpace(string(bad))))
	}
	find := func(line *regexp.Regexp) string {
		found := line.FindSubmatch(out)
		if found == nil {
			panic(fmt.Errorf("wrk says something else:\n%s", out))
		}
		return string(found[1])
	}
	m.requests = try(strconv.ParseFloat(find(requestsLine), 64))
	m.p99 = try(time.ParseDuration(find(p99Line)))
	m.cpu = time.Duration(float64(used) / max(m.requests, 1))
	return m
}

// freshQueries has wrk ask for another query string with each request.
const freshQueries = `
local n = 0
local seed = tostring(os.time()) .. tostring({}):sub(8)
request = function()
  n = n + 1
  return wrk.format("GET", wrk.path .. "?utm_id=" .. seed .. "-" .. n)
end
`

// script writes a file for wrk.
func (l *lab) script(text string) (string, error) {
	file := filepath.Join(l.dir, "wrk.lua")
	return file, os.WriteFile(file, []byte(text), 0o600)
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func micros(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/1000) }
func millis(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/1e6) }
func megabytes(n int) string        { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// describeMachine says what was measured on.
func describeMachine() string {
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
	return fmt.Sprintf("%s, %d cores, Linux %s, %s, %s, %s, %s, %s, vitrine %s. The load average before was %s.",
		model, runtime.NumCPU(), first("uname", "-r"), version("Go", "go", "version"), version("nginx", "nginx", "-v"), version("Varnish", "varnishd", "-V"),
		version("Redis", "redis-server", "--version"), version("wrk", "wrk", "-v"), first("git", "rev-parse", "--short", "HEAD"), loadAverage())
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
