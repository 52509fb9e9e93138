// Command bench measures vitrine beside what somebody would use in its place: nginx, Varnish, and a
// bare Fiber handler that writes the same bytes; and beside the least that any server in Go takes.
//
// One run goes through these sections, each a table or two of docs/performance.md, which -write
// writes anew:
//
//  1. hits (compare.go): each kind of request at vitrine, nginx, Varnish and bare Fiber in turn,
//     second by second, so that what changes on the machine meanwhile meets all; their answers are
//     compared before;
//  2. header (header.go): the fields of a hit, with their bytes;
//  3. budgets (budgets.go): memory, start, first answer, an idle connection;
//  4. attack (attack.go): orderings and indentations never seen before, with what that does to
//     others;
//  5. curves (curves.go, fleet.go, purges.go, distance.go, crowd.go): how cost grows with
//     documents, connections, replicas, purges, Redis's distance and other processes.
//
// What is compared is the server's own processor time for each request, from /proc, in ratios
// within one run: the load generator and other work share the processors, and disturb that least.
//
// It is a module of its own, so that what it needs never reaches the product.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// settings are the command's flags.
type settings struct {
	rounds      int           // how often each contender is loaded
	duration    time.Duration // for how long at a time
	connections int
	only        string // the sections to run
	write       bool   // docs/performance.md
	short       bool
}

// A section of a run adds what it found to the report.
type section struct {
	name string
	run  func(*lab, settings, *report) error
}

var sections = []section{
	{"hits", hits}, {"header", header}, {"tls", secureHits}, {"budgets", budgets}, {"attack", attack},
	{"documents", documents}, {"connections", connections}, {"replicas", replicas}, {"purges", purges}, {"distance", distance}, {"crowd", crowd},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "bare" {
		exitOn(serveBare(os.Args[2:]))
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "loop" {
		exitOn(serveLoop(os.Args[2:]))
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "busy" {
		compute()
		return
	}
	var s settings
	var quick bool
	flag.IntVar(&s.rounds, "rounds", 7, "how often each contender is loaded, in turn")
	flag.DurationVar(&s.duration, "duration", time.Second, "for how long at a time, in whole seconds")
	flag.IntVar(&s.connections, "connections", 32, "how many connections wrk keeps open")
	flag.StringVar(&s.only, "only", "", "sections to run, separated by commas; all unless given")
	flag.BoolVar(&s.write, "write", false, "write docs/performance.md and its charts; sections that are not run keep their results")
	flag.BoolVar(&quick, "quick", false, "three rounds: about half the time")
	flag.BoolVar(&s.short, "short", false, "compare answers, hold that hits do not allocate, and load each kind once; fails on errors only")
	flag.Parse()
	if quick {
		s.rounds = 3
	}
	if s.short {
		s.rounds, s.only = 0, "hits" // the round that otherwise warms up
	}
	exitOn(run(s))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(s settings) error {
	only := strings.FieldsFunc(s.only, func(r rune) bool { return r == ',' })
	for _, name := range only {
		if !slices.ContainsFunc(sections, func(c section) bool { return c.name == name }) {
			return fmt.Errorf("there is no section %q", name)
		}
	}
	if _, err := exec.LookPath("wrk"); err != nil {
		return errors.New("wrk is not installed: apt-get install wrk")
	}
	l, err := newLab()
	if err != nil {
		return err
	}
	defer l.close()
	if s.short {
		if err := l.allocations(); err != nil {
			return err
		}
	}
	r, err := newReport(len(only) > 0)
	if err != nil {
		return err
	}
	var failed []error
	if !s.short {
		awaitQuiet()
	}
	date, machine := time.Now().UTC().Format(time.DateOnly), describeMachine(l)
	if len(only) == 0 || r.Texts["machine"] == "" {
		r.text("date", date)
		r.text("machine", machine)
	}
	for _, c := range sections {
		if len(only) > 0 && !slices.Contains(only, c.name) {
			continue
		}
		began := time.Now()
		err := c.run(l, s, r)
		if err != nil && !s.short { // once more, since other work on the machine can be why
			fmt.Fprintf(os.Stderr, "bench: %s: %v; again\n", c.name, err)
			err = c.run(l, s, r)
		}
		if err != nil { // the page says that it was not measured
			failed = append(failed, fmt.Errorf("%s: %w", c.name, err))
			continue
		}
		later := ""
		if len(only) > 0 {
			later = "Measured on " + date + ": " + machine
		}
		r.text("later-"+c.name, later)
		if c.name == "hits" {
			r.text("again", "") // that they are to be measured again
		}
		r.print(os.Stdout)
		fmt.Printf("(%s took %v)\n\n", c.name, time.Since(began).Round(time.Second))
		if s.write {
			if err := r.write("../docs"); err != nil {
				return err
			}
		}
	}
	return errors.Join(failed...)
}
