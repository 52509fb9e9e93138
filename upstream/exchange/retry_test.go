package exchange

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

func TestJudgeIsTheTableOfThePolicy(t *testing.T) {
	type row struct {
		err  error
		want Verdict
	}
	passing := Verdict{Kind: ErrAnswer, Again: true, Trips: true}
	rows := []row{
		{&FaultError{Kind: FaultDamaged}, passing},
		{&FaultError{Kind: FaultPage}, Verdict{Kind: ErrAnswer, Trips: true}},
		{&FaultError{}, Verdict{Kind: ErrAnswer}},
		{&FaultError{Kind: FaultFile}, Verdict{Kind: ErrAnswer}},
		{&FaultError{Kind: FaultFolder}, Verdict{Kind: ErrUnreachable}},
		{&Error{Kind: ErrAnswer, Err: errors.New("the pages have no end")}, Verdict{Kind: ErrAnswer}},
		{&url.Error{Err: &FaultError{Kind: FaultRedirect}}, Verdict{Kind: ErrAnswer}},
		{&url.Error{Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}, Verdict{Kind: ErrUnreachable, Trips: true}},
		{&url.Error{Err: tls.RecordHeaderError{}}, Verdict{Kind: ErrUnreachable, Trips: true}},
		{&url.Error{Err: http.ErrSchemeMismatch}, Verdict{Kind: ErrUnreachable, Trips: true}},
		{&url.Error{Err: syscall.ECONNREFUSED}, Verdict{ErrUnreachable, true, true}},
		{&url.Error{Err: io.EOF}, Verdict{ErrUnreachable, true, true}},
		{&Error{Kind: ErrTimeout, Err: &LateError{last: &StatusError{Code: 404}}}, Verdict{Kind: ErrTimeout, Trips: true}},
		{&Error{Kind: ErrOpen, Err: &OpenError{}}, Verdict{Kind: ErrOpen}},
		{&StatusError{Code: 401, Outage: true}, passing},
	}
	for _, statuses := range []struct {
		want  Verdict
		codes []int
	}{
		{passing, []int{408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524}},
		{Verdict{Kind: ErrAnswer, Trips: true}, []int{501, 505, 508, 511, 525, 530}},
		{Verdict{Kind: ErrAnswer}, []int{101, 201, 204, 206, 300, 301, 304, 401, 403, 404, 407, 410, 451}},
		{Verdict{Kind: ErrAnswer}, []int{400, 405, 406, 409, 418, 431}},
	} {
		for _, code := range statuses.codes {
			rows = append(rows, row{&StatusError{Code: code}, statuses.want})
		}
	}
	for _, r := range rows {
		if got := Judge(r.err); got != r.want {
			t.Errorf("%v: %v, want %v", r.err, got, r.want)
		}
	}
}

var update = flag.Bool("update", false, "write the table into docs/failures.md")

func TestTableInTheDocsIsTheOneInForce(t *testing.T) {
	const file, from, to = "../../docs/failures.md", "<!-- table: upstream/exchange/retry.go -->\n", "<!-- end of the table -->\n"
	var table strings.Builder
	table.WriteString("| failure of an attempt | again | counted | status |\n|---|---|---|---|\n")
	yes := map[bool]string{true: "yes", false: "–"}
	answered := map[error]string{ErrAnswer: "502", ErrUnreachable: "503", ErrTimeout: "504", ErrOpen: "503"}
	for i, r := range rules {
		if i > 0 && rules[i-1].Verdict == r.Verdict { // one row for neighbours that end alike
			table.WriteString("<br>" + r.met)
		} else {
			table.WriteString("| " + r.met)
		}
		if i+1 == len(rules) || rules[i+1].Verdict != r.Verdict {
			fmt.Fprintf(&table, " | %s | %s | %s |\n", yes[r.Again], yes[r.Trips], answered[r.Kind])
		}
	}
	raw, err := os.ReadFile(file)
	testkit.Must(t, err)
	before, rest, ok := strings.Cut(string(raw), from)
	have, after, found := strings.Cut(rest, to)
	if !ok || !found {
		t.Fatalf("%s has no place for the table", file)
	}
	if *update {
		testkit.Must(t, os.WriteFile(file, []byte(before+from+table.String()+to+after), 0o644))
		return
	}
	if have != table.String() {
		t.Errorf("%s does not have the table of retry.go; run go test ./upstream/exchange -run TableInTheDocs -update\nwant\n%s", file, &table)
	}
}

func TestWaitsDoubleUpToTheirCapWithJitter(t *testing.T) {
	o := Options{RetryWait: 100 * time.Millisecond, MaxRetryWait: 800 * time.Millisecond}
	for made, full := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 4: 800 * time.Millisecond, 5: 800 * time.Millisecond, 99: 800 * time.Millisecond,
	} {
		seen := map[time.Duration]bool{}
		for range 200 {
			wait := o.pause(made, 0)
			if wait < full/2 || wait > full {
				t.Fatalf("after attempt %d: %v, want %v to %v", made, wait, full/2, full)
			}
			seen[wait] = true
			if asked := o.pause(made, 3*time.Second); asked < 3*time.Second || asked > 3*time.Second+full {
				t.Fatalf("after attempt %d, asked for 3s: %v", made, asked)
			}
		}
		if len(seen) < 10 {
			t.Errorf("after attempt %d: %d different waits of 200", made, len(seen))
		}
	}
}
