package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// The budgets beside throughput.
const (
	budgetMemory      = 25_000_000 // bytes, and
	budgetPerDocument = 8          // times the documents
	budgetListening   = 50 * time.Millisecond
	budgetFirstAnswer = 100 * time.Millisecond
)

// starts is how often a start is measured.
const starts = 9

// check measures what is not throughput.
func (l *lab) check(w io.Writer) (good bool, err error) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\tmeasured\tbudget\t\t")
	good = true
	row := func(what, measured, budget string, within bool) {
		good = good && within
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t\n", what, measured, budget, judge(within))
	}
	own, whole, err := l.memory()
	if err != nil {
		return false, err
	}
	allowed := budgetMemory + budgetPerDocument*l.documents
	row("memory, every representation made, after load", fmt.Sprintf("%s (%s with the program's file)", megabytes(own), megabytes(whole)),
		megabytes(allowed), own <= allowed)

	took, err := l.startTimes("embedded:127.0.0.1:0", false)
	if err != nil {
		return false, err
	}
	row("start to listening, store inside", times(took), budgetListening.String(), middle(took) <= budgetListening)

	addr, stop, err := l.startRedis()
	if err != nil {
		fmt.Fprintf(table, "first answer with Redis warm\t%v\t\tskipped\t\n", err)
		return good, table.Flush()
	}
	defer stop()
	if took, err = l.startTimes("redis://"+addr, false); err != nil {
		return false, err
	}
	row("start to listening, Redis", times(took), budgetListening.String(), middle(took) <= budgetListening)
	if took, err = l.startTimes("redis://"+addr, true); err != nil {
		return false, err
	}
	row("start to first answer, Redis warm", times(took), budgetFirstAnswer.String(), middle(took) <= budgetFirstAnswer)
	return good, table.Flush()
}

func megabytes(n int) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func middle(all []time.Duration) time.Duration { return slices.Sorted(slices.Values(all))[len(all)/2] }

func times(all []time.Duration) string {
	return fmt.Sprintf("%.1f ms (median of %d, worst %.1f)", milliseconds(middle(all)), len(all), milliseconds(slices.Max(all)))
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// memory is what vitrine has in RAM after it has made every representation and has been loaded, in bytes: its own, and
// with the pages of the program's file, which the system shares and can drop.
func (l *lab) memory() (own, whole int, err error) {
	p, err := started(l.startVitrine("embedded:127.0.0.1:0"))
	if err != nil {
		return 0, 0, err
	}
	defer p.stop()
	for _, target := range []string{
		"/gvapp/", "/cms/rules/", "/gvapp/singlebanner", "/gvapp/singlebanner?ordering=-id",
		"/gvapp/?format=api", "/cms/rules/?format=api", "/gvapp/singlebanner?format=api",
	} {
		for _, coding := range []string{"identity", "gzip", "br", "zstd"} {
			if _, _, _, err := get(p.addr, target, [][2]string{{"Accept-Encoding", coding}}); err != nil {
				return 0, 0, err
			}
		}
	}
	if _, err := exec.LookPath("wrk"); err == nil {
		if _, err := wrk(p.addr, kinds[1], "", 32, 2*time.Second); err != nil {
			return 0, 0, err
		}
	}
	if own, err = resident(p.cmd.Process.Pid, "RssAnon:"); err != nil {
		return 0, 0, err
	}
	whole, err = resident(p.cmd.Process.Pid, "VmRSS:")
	return own, whole, err
}

// resident reads one of the sizes that Linux tells of a process, in bytes.
func resident(pid int, name string) (int, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, name); ok {
			kilobytes, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), " kB"))
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no %s", pid, name)
}

// cpuTime is how much processor time a process has had.
func cpuTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	// The name in brackets may hold anything; what follows are fields 3 and on (proc_pid_stat(5)).
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	var ticks int
	for _, i := range []int{14 - 3, 15 - 3} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil // USER_HZ is 100 wherever Go runs on Linux
}

// startTimes starts vitrine several times, and returns how long it took to listen, or to answer with a document.
// The first start, which fills what is to be warm, does not count.
func (l *lab) startTimes(redis string, answer bool) ([]time.Duration, error) {
	var all []time.Duration
	for i := range starts + 1 {
		took, err := l.startOnce(redis, answer)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			all = append(all, took)
		}
	}
	return all, nil
}

func (l *lab) startOnce(redis string, answer bool) (time.Duration, error) {
	p, err := l.startVitrine(redis)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	took, err := p.listening()
	if err != nil || !answer {
		return took, err
	}
	status, _, _, err := get(p.addr, "/gvapp/", nil)
	took = time.Since(p.began)
	if err == nil && status != 200 {
		err = fmt.Errorf("the first answer is %d", status)
	}
	return took, err
}

// startRedis starts a real Redis.
func (l *lab) startRedis() (addr string, stop func(), err error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return "", nil, fmt.Errorf("redis-server is not installed: apt-get install redis-server")
	}
	if addr, err = freeAddress(); err != nil {
		return "", nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", nil, err
	}
	p, err := started(start(addr, program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", l.dir))
	if err != nil {
		return "", nil, err
	}
	return addr, p.stop, nil
}
