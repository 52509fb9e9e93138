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
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	met, err := run(s, os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	case !met:
		os.Exit(1)
	}
}

// run measures everything and prints it. It reports whether every budget is met.
func run(s settings, w io.Writer) (met bool, err error) {
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
	met = true
	if s.only != "-" {
		if _, err := exec.LookPath("wrk"); err != nil {
			return false, fmt.Errorf("wrk is not installed: apt-get install wrk")
		}
		good, err := l.compare(s, w)
		if err != nil {
			return false, err
		}
		met = met && good
	}
	if s.checks {
		good, err := l.check(w)
		if err != nil {
			return false, err
		}
		met = met && good
	}
	return met, nil
}

// verdict says whether a budget is met.
func verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

// otherWork says how busy the machine is, since what is measured beside other work means little.
func otherWork() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "Load average: not known."
	}
	average, _, _ := strings.Cut(string(text), " ")
	return fmt.Sprintf("Load average: %s on %d cores.", average, runtime.NumCPU())
}

// compare loads each kind of request.
func (l *lab) compare(s settings, w io.Writer) (met bool, err error) {
	fmt.Fprintf(w, "A hit beside a bare Fiber handler that writes the same bytes: %d times %v each in turn, %d connections.\n",
		s.pairs, s.duration, s.connections)
	fmt.Fprintf(w, "Budget: at least %.1f of its requests a second. %s\n\n", budgetRatio, otherWork())
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "kind\tbytes\tvitrine/s\tbare/s\tratio\tof CPU\tbudget\t")
	met = true
	for _, k := range kinds {
		if !strings.Contains(k.name, s.only) {
			continue
		}
		r, err := l.measure(k, s)
		if err != nil {
			return false, fmt.Errorf("%s: %w", k.name, err)
		}
		good := r.ratio() >= budgetRatio
		met = met && good
		fmt.Fprintf(table, "%s\t%d\t%.0f\t%.0f\t%.2f\t%.2f\t%s\t\n",
			k.name, r.bytes, r.vitrine.perSecond(), r.bare.perSecond(), r.ratio(), r.cpuRatio(), verdict(good))
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	fmt.Fprint(w, "\nRatio: the median over the pairs. Of CPU: requests per second of the server's own processor time, over the\n"+
		"same of the bare handler, which other work on the machine disturbs less. "+otherWork()+"\n\n")
	return met, nil
}
