// Command gotest reads the output of go test -json on standard input and prints a line per package,
// the output of failed tests, what was skipped and what to install for it, and the ten slowest
// tests. Each test counts once, without its subtests.
//
// A skipped test counts as failed, so that no skip goes unnoticed. With -bare, the machine lacks
// the other programs: a skip is allowed if it says why, and nothing is counted.
//
// With -again, a test that failed runs once more, by itself, since on two processors shared by all
// packages a test can miss its bound of time without a defect. If it passes then it counts as
// passed, and also as again, which the last line of the whole run reports. What failed in a package
// with a data race or a panic, and what the random campaigns of -never find, stay failures: a
// second run proves nothing against them. With -limit, a test that takes longer has failed. One
// that has not ended after two minutes is named at once.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// event is one line of go test -json; see go doc cmd/test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output and build-fail
	Test       string
	Output     string
	Elapsed    float64
}

func main() {
	counts := flag.String("counts", "", "file to append a line passed, failed or skipped to for each test; empty appends nowhere")
	bare := flag.Bool("bare", false, "allow the skips that say why, and count nothing")
	again := flag.String("again", "", "`command` that runs a failed test once more, followed by -run and its package; empty runs none")
	never := flag.String("never", "", "`package` whose failures stay failures")
	limit := flag.Duration("limit", 0, "how long a test may take; 0: as long as it likes")
	flag.Parse()
	s := summary{
		bare: *bare, limit: *limit, out: os.Stdout, output: map[string]*strings.Builder{},
		certain: map[string]bool{}, lacking: map[string]int{},
	}
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(2)
	}
	if *again != "" {
		s.runAgain(strings.Fields(*again), *never)
	}
	if err := s.write(*counts); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(2)
	}
	s.close()
	s.printf("%d tests passed, %d of them when run again, %d failed, %d skipped\n", s.passed, s.again, s.failed, s.skipped)
	if s.failed > 0 || s.passed == 0 {
		os.Exit(1)
	}
}

type summary struct {
	bare                    bool
	limit                   time.Duration
	out                     io.Writer
	output                  map[string]*strings.Builder // by package and test, until it is known how it ended
	passed, failed, skipped int
	again                   int             // of those passed
	retry                   []failure       // failed tests that may run again
	certain                 map[string]bool // packages with a failure that a second run could miss
	lacking                 map[string]int  // how many tests were skipped, by what they said
	took                    []event         // the ends of tests
}

type failure struct {
	pkg, test string
	slow      bool // and nothing else
}

// mostAgain is how many failed tests run again: more of them are not chance. That any number is
// slow can be the machine's doing.
const mostAgain = 3

// runAgain runs the failed tests once more, each by itself.
func (s *summary) runAgain(command []string, never string) {
	if len(slices.DeleteFunc(slices.Clone(s.retry), func(f failure) bool { return f.slow })) > mostAgain {
		return
	}
	for _, f := range s.retry {
		if f.pkg == never || s.certain[f.pkg] {
			continue
		}
		out, err := exec.CommandContext(context.Background(), command[0], append(command[1:], "-timeout", s.timeout(), "-run", "^"+f.test+"$", f.pkg)...).CombinedOutput() //nolint:gosec // the names are go test's
		if err != nil {
			s.printf("%sFAIL  %s %s again: %v\n", out, f.pkg, f.test, err)
			continue
		}
		s.printf("AGAIN %s %s failed beside the others, and passed by itself\n", f.pkg, f.test)
		s.failed--
		s.passed++
		s.again++
	}
}

// timeout is for a test that runs again.
func (s *summary) timeout() string { return cmp.Or(s.limit, 20*time.Minute).String() }

// late is after how long a test that has not ended is named.
const late = 2 * time.Minute

func (s *summary) read(r io.Reader) (err error) {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		from := bufio.NewScanner(r)
		from.Buffer(nil, 16<<20)
		for from.Scan() {
			lines <- bytes.Clone(from.Bytes())
		}
		err = from.Err()
	}()
	failedTests, running, began := map[string]int{}, map[string]bool{}, map[string]time.Time{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for open := true; open; {
		var line []byte
		select {
		case <-tick.C:
			for _, test := range slices.Sorted(maps.Keys(began)) {
				if time.Since(began[test]) > late {
					s.printf("STILL %s has not ended after %v\n", test, late)
					delete(began, test)
				}
			}
			continue
		case line, open = <-lines:
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			if open {
				s.printf("%s\n", line)
			}
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "start":
			running[e.Package] = true
		case "run", "cont":
			began[key] = time.Now()
		case "pause":
			delete(began, key)
		case "build-output":
			s.printf("%s", e.Output)
		case "output":
			b := s.output[key]
			if b == nil {
				b = new(strings.Builder)
				s.output[key] = b
			}
			if !strings.HasPrefix(e.Output, "=== ") { // RUN, PAUSE and CONT
				b.WriteString(e.Output)
			}
			// Of tests that run in parallel, another may be named.
			if strings.Contains(e.Output, "DATA RACE") || strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ") {
				s.certain[e.Package] = true
			}
		case "pass", "fail", "skip":
			delete(began, key)
			if e.Test == "" {
				delete(running, e.Package)
				s.endPackage(e, failedTests[e.Package])
			} else if s.endTest(e) {
				failedTests[e.Package]++
			}
			delete(s.output, key)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(running)) { // go test itself ended
		s.printf("FAIL  %s never ended\n", pkg)
		s.failed++
	}
	return err
}

// endPackage prints the package's line. A package that failed though no test of it did (it does not
// build, or its process died) is a failure of its own.
func (s *summary) endPackage(e event, failedTests int) {
	key := e.Package + " "
	switch e.Action {
	case "skip":
		s.printf("none  %s (no tests)\n", e.Package)
	case "pass":
		s.printf("ok    %s %.1fs\n", e.Package, e.Elapsed)
	default:
		if failedTests == 0 {
			s.failed++
		}
		// The rest was printed outside of any test, or by tests that never ended.
		for _, left := range slices.Sorted(maps.Keys(s.output)) {
			if strings.HasPrefix(left, key) {
				s.certain[e.Package] = s.certain[e.Package] || left != key
				s.show(left)
				delete(s.output, left)
			}
		}
		s.printf("FAIL  %s %.1fs\n", e.Package, e.Elapsed)
	}
	delete(s.output, key)
}

// endTest counts a test, prints its output if it failed, and reports whether it counts as a
// failure. Subtests are shown and not counted.
func (s *summary) endTest(e event) (failed bool) {
	counts := !strings.Contains(e.Test, "/")
	switch {
	case e.Action == "pass" && counts && s.limit > 0 && seconds(e) > s.limit:
		s.printf("FAIL  %s %s took %v, and may take %v\n", e.Package, e.Test, seconds(e), s.limit)
		s.retry = append(s.retry, failure{e.Package, e.Test, true})
	case e.Action == "pass":
		if counts {
			s.passed++
			s.took = append(s.took, e)
		}
		return false
	case e.Action == "skip" && s.bare && s.why(e) != "":
		if counts {
			s.skipped++
		}
		s.lacking[s.why(e)]++
		return false
	case e.Action == "skip":
		s.printf("FAIL  %s %s skipped\n", e.Package, e.Test)
		counts = true
	case counts:
		s.retry = append(s.retry, failure{e.Package, e.Test, false})
	}
	s.show(e.Package + " " + e.Test)
	if counts {
		s.failed++
	}
	return counts
}

// why returns what a skipped test said; "" if it said nothing.
func (s *summary) why(e event) string {
	b := s.output[e.Package+" "+e.Test]
	if b == nil {
		return ""
	}
	for line := range strings.Lines(b.String()) {
		if _, said, ok := strings.Cut(line, ".go:"); ok {
			_, said, _ = strings.Cut(said, ": ")
			return strings.TrimSpace(said)
		}
	}
	return ""
}

func seconds(e event) time.Duration { return time.Duration(e.Elapsed * float64(time.Second)) }

// close prints what was skipped, and what took longest.
func (s *summary) close() {
	for _, said := range slices.Sorted(maps.Keys(s.lacking)) {
		s.printf("skip  %d: %s\n", s.lacking[said], said)
	}
	slices.SortFunc(s.took, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range s.took[:min(10, len(s.took))] {
		s.printf("slow  %5.1fs %s %s\n", e.Elapsed, e.Package, e.Test)
	}
}

// printf prints to standard output; an error has nowhere to go.
func (s *summary) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format, args...)
}

func (s *summary) show(key string) {
	if b := s.output[key]; b != nil {
		s.printf("%s", b.String())
	}
}

func (s *summary) write(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, strings.Repeat("passed\n", s.passed)+
		strings.Repeat("failed\n", s.failed)+strings.Repeat("skipped\n", s.skipped)+strings.Repeat("again\n", s.again))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
