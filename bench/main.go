// Command bench measures vitrine beside what could stand in its place: nginx, Varnish, and a bare
// Fiber handler that writes the same bytes. Its sections are:
//
//   - hits (compare.go): each kind of request at all contenders in turn, second by second;
//   - memory (memory.go): after load, of an idle connection, and how long a start takes;
//   - fleet (fleet.go): fetches, purges and polls of 1 to 8 replicas;
//   - purge (fleet.go): from a purge to the first visitor behind Varnish.
//
// What is compared is the server's own processor time for each request, from /proc, in ratios within
// one run: the load generator and other work share the processors, and disturb that least.
//
// It is a module of its own: what it needs never reaches the product.
package main

import (
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
}

// A section of a run returns the tables that it measured.
type section struct {
	name string
	run  func(*lab, settings) []table
}

var sections = []section{{"hits", hits}, {"memory", memory}, {"fleet", fleet}, {"purge", purge}}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "bare" {
		exitOn(serveBare(os.Args[2:]))
		return
	}
	var s settings
	flag.IntVar(&s.rounds, "rounds", 7, "how often each contender is loaded, in turn")
	flag.DurationVar(&s.duration, "duration", time.Second, "for how long at a time, in whole seconds")
	flag.IntVar(&s.connections, "connections", 32, "how many connections wrk keeps open")
	flag.StringVar(&s.only, "only", "", "sections to run, separated by commas; all unless given")
	flag.BoolVar(&s.write, "write", false, "write the tables into docs/performance.md; sections that are not run keep theirs")
	flag.Parse()
	exitOn(run(s))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// try returns a value, or panics with its error: whatever was started ends on the way out.
func try[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// twice calls do once more if it fails, since other work on the machine can be why.
func twice(what string, do func()) {
	defer func() {
		if err := recover(); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v; again\n", what, err)
			do()
		}
	}()
	do()
}

func run(s settings) (err error) {
	defer func() {
		if failed := recover(); failed != nil {
			err = fmt.Errorf("%v", failed)
		}
	}()
	only := strings.FieldsFunc(s.only, func(r rune) bool { return r == ',' })
	for _, name := range only {
		if !slices.ContainsFunc(sections, func(c section) bool { return c.name == name }) {
			return fmt.Errorf("there is no section %q", name)
		}
	}
	if _, err := exec.LookPath("wrk"); err != nil {
		return errors.New("wrk is not installed: apt-get install wrk")
	}
	l := newLab()
	defer l.close()
	measured := table{Name: "machine", Text: "Measured on " + time.Now().UTC().Format(time.DateOnly) + ": " + describeMachine()}
	fmt.Println(measured.Text)
	for _, c := range sections {
		if len(only) > 0 && !slices.Contains(only, c.name) {
			continue
		}
		began := time.Now()
		var tables []table
		twice(c.name, func() { tables = c.run(l, s) })
		for _, t := range tables {
			t.print(os.Stdout)
		}
		fmt.Printf("(%s took %v)\n\n", c.name, time.Since(began).Round(time.Second))
		if s.write {
			if c.name == "hits" {
				tables = append(tables, measured)
			}
			if err = write("../docs/performance.md", tables); err != nil {
				return err
			}
		}
	}
	return nil
}
