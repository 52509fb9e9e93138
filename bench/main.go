// Command bench holds vitrine against its budgets: a hit beside a bare Fiber handler that writes the same bytes, and
// memory, start and first answer.
//
// It builds vitrine and starts it as its users do, on a folder of documents. For each kind of request it asks vitrine
// once, starts a second process whose only handler repeats that answer (bare.go), and lets wrk load the two in turn,
// A, B, A, B, so that what changes on the machine meanwhile meets both. All processes share two cores.
//
// It is a module of its own, so that what it needs never reaches the product.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// settings are the command's flags.
type settings struct {
	pairs       int           // how often each of the two is loaded
	duration    time.Duration // for how long at a time
	connections int
	only        string // kinds whose name holds this
	checks      bool   // measure memory and start
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "bare" {
		if err := serveBare(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bare:", err)
			os.Exit(1)
		}
		return
	}
	var s settings
	flag.IntVar(&s.pairs, "pairs", 9, "how often each of the two is loaded, in turn")
	flag.DurationVar(&s.duration, "duration", time.Second, "for how long at a time, in whole seconds")
	flag.IntVar(&s.connections, "connections", 32, "how many connections wrk keeps open")
	flag.StringVar(&s.only, "only", "", "measure only kinds of request whose name holds this; - measures none")
	flag.BoolVar(&s.checks, "checks", true, "measure memory, start and first answer as well")
	flag.Parse()
	good, err := run(s, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	if err != nil || !good {
		os.Exit(1)
	}
}

// run measures everything and prints it. It reports whether no budget is missed.
func run(s settings, w io.Writer) (good bool, err error) {
	dir, err := os.MkdirTemp("", "vitrine-bench-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	l := &lab{dir: dir, vitrine: filepath.Join(dir, "vitrine")}
	if err := l.build(); err != nil {
		return false, err
	}
	if l.documents, err = l.writeDocuments(); err != nil {
		return false, err
	}
	good = true
	if s.only != "-" {
		if _, err := exec.LookPath("wrk"); err != nil {
			return false, errors.New("wrk is not installed: apt-get install wrk")
		}
		if good, err = l.compare(s, w); err != nil {
			return false, err
		}
	}
	if s.checks {
		checked, err := l.check(w)
		if err != nil {
			return false, err
		}
		good = good && checked
	}
	return good, nil
}

// A verdict says what became of a budget.
type verdict string

const (
	met    verdict = "met"
	missed verdict = "MISSED"
	// unclear is a ratio that was missed beside other work, while by processor time it was met.
	unclear verdict = "unclear"
)

func judge(good bool) verdict {
	if good {
		return met
	}
	return missed
}

// loadAverage is how many processes wanted a processor over the last minute; 0 if that is not known.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	average, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return average
}

// otherWork says how busy the machine was before, since what is measured beside other work tells less.
func otherWork(average float64) string {
	return fmt.Sprintf("Load average before: %.2f on %d cores.", average, runtime.NumCPU())
}

// compare loads each kind of request.
func (l *lab) compare(s settings, w io.Writer) (good bool, err error) {
	average := loadAverage()
	busy := average > 1
	fmt.Fprintf(w, "A hit beside a bare Fiber handler that writes the same bytes: %d times %v each in turn, %d connections.\n",
		s.pairs, s.duration, s.connections)
	fmt.Fprintf(w, "Budget: at least %.1f of its requests a second. %s\n\n", budgetRatio, otherWork(average))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "kind\tbytes\tvitrine/s\tbare/s\tratio\tof CPU\tbudget\t")
	good = true
	for _, k := range kinds {
		if !strings.Contains(k.name, s.only) {
			continue
		}
		r, err := l.measure(k, s)
		if err != nil {
			return false, fmt.Errorf("%s: %w", k.name, err)
		}
		v := judge(r.ratio() >= budgetRatio)
		if v == missed && busy && r.cpuRatio() >= budgetRatio {
			v = unclear
		}
		good = good && v != missed
		fmt.Fprintf(table, "%s\t%d\t%.0f\t%.0f\t%.2f\t%.2f\t%s\t\n",
			k.name, r.bytes, r.vitrine.perSecond(), r.bare.perSecond(), r.ratio(), r.cpuRatio(), v)
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	fmt.Fprint(w, "\nRatio: the median over the pairs. Of CPU: requests per second of the server's own processor time, over the\n"+
		"same of the bare handler, which other work on the machine disturbs less.\n\n")
	return good, nil
}
