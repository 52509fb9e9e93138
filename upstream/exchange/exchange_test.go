package exchange

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
	"unicode"

	"vitrine/cmd/testkit"
	"vitrine/upstream/upstreamtest"
)

// TestOnlyABodyThatIsReturnedTakesOfTheLimit has each way to refuse a body give back what it took,
// for the next attempt and for the other responses of the document.
func TestOnlyABodyThatIsReturnedTakesOfTheLimit(t *testing.T) {
	const most = 10_000
	pack := func(s string, level int) string {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, level)
		_, _ = io.WriteString(w, s)
		_ = w.Close()
		return b.String()
	}
	document := "[" + strings.Repeat(" ", 5000) + "]"
	packed := pack(document, gzip.BestCompression)
	exact := "[" + strings.Repeat(" ", most-2) + "]"
	const large = "the body is larger than 10000 bytes"
	for _, c := range []struct {
		name, encoding, body, kind string
		announced                  int64
		want                       int    // bytes; 0 for none
		says                       string // in the error
	}{
		{name: "a document", body: document, announced: -1, want: len(document)},
		{name: "one that is announced", body: document, announced: int64(len(document)), want: len(document)},
		{name: "one that is packed", encoding: "gzip", body: packed, announced: int64(len(packed)), want: len(document)},
		{name: "exactly the limit", body: exact, announced: -1, want: most},
		{name: "exactly the limit, packed", encoding: "gzip", body: pack(exact, gzip.BestCompression), announced: -1, want: most},
		{name: "one more", body: exact + " ", announced: -1, says: large},
		{name: "one more, packed", encoding: "gzip", body: pack(exact+" ", gzip.BestCompression), announced: -1, says: large},
		{name: "cut short", body: document[:4000], announced: -1},
		{name: "cut short, packed", encoding: "gzip", body: packed[:len(packed)-9], announced: -1},
		{name: "a checksum that is wrong", encoding: "gzip", body: packed[:len(packed)-1], announced: -1},
		{name: "not packed", encoding: "gzip", body: document, announced: -1, want: len(document)},
		{name: "packed in two members", encoding: "gzip", body: pack(document[:9], 9) + pack(document[9:], 9), announced: -1, want: len(document)},
		{name: "packed, and bytes after it", encoding: "gzip", body: packed + strings.Repeat("\x00", 8), announced: -1, want: len(document)},
		{name: "packed, and what looks like a member after it", encoding: "gzip", body: packed + "\x1f\x8b??", announced: -1, want: len(document)},
		{name: "packed, and no word of it", body: packed, announced: -1, want: len(document)},
		{name: "packed twice", encoding: "gzip, gzip", body: pack(packed, 9), announced: -1, want: len(document)},
		{name: "one of several codings", encoding: "identity, gzip", body: packed, announced: -1, want: len(document)},
		{name: "a charset for a coding", encoding: "utf-8", body: document, announced: -1, want: len(document)},
		{name: "no coding, in words", encoding: "none", body: document, announced: -1, want: len(document)},
		{name: "another coding of no such body", encoding: "br", body: document, announced: -1, want: len(document)},
		{name: "another coding", encoding: "br", body: "\x0b\x02\x80[]\x03", announced: -1, says: `want gzip or no encoding, got Content-Encoding "br"`},
		{name: "too large", body: strings.Repeat(" ", 3*most), announced: -1, says: large},
		{name: "announced to be too large", body: document, announced: most + 1, says: large},
		{name: "too large once unpacked", encoding: "gzip", body: pack(strings.Repeat(" ", 100*most), 9), announced: -1, says: large},
		{name: "too large while it is packed", encoding: "gzip", body: strings.Repeat(pack("", 9), most), announced: -1, says: large},
		{name: "of another type", body: document, kind: "text/plain", announced: -1},
		{name: "a page", body: "<html>" + document, announced: -1},
		{name: "an error", body: `{"error":{"status":500,"name":"InternalServerError","message":"x"}}`, announced: -1},
		{name: "nothing", announced: 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := &counted{Reader: iotest.HalfReader(strings.NewReader(c.body))}
			resp := &http.Response{Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: c.announced, Body: io.NopCloser(in)}
			if c.kind != "" {
				resp.Header.Set("Content-Type", c.kind)
			}
			if c.encoding != "" {
				resp.Header.Set("Content-Encoding", c.encoding)
			}
			left := new(atomic.Int64)
			left.Store(most)
			body, err := readBody(resp, Limit{Left: left, Most: most})
			if len(body) != c.want || (err == nil) != (c.want > 0) || c.says != "" && err.Error() != c.says {
				t.Errorf("%d bytes, %v", len(body), err)
			}
			if n := most - left.Load(); n != int64(len(body)) {
				t.Errorf("%d bytes taken for %d", n, len(body))
			}
			if in.n > most+(64<<10) {
				t.Errorf("%d bytes read, of at most %d", in.n, most)
			}
		})
	}
}

// counted counts what is read.
type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// FuzzWhatAnAnswerSays holds that any body is taken, or refused as content with nothing of it in
// the words but one.
func FuzzWhatAnAnswerSays(f *testing.F) {
	for _, cms := range []string{"drf", "directus", "strapi4", "strapi5", "wordpress"} {
		for _, name := range upstreamtest.Recordings(f, cms) {
			if strings.Contains(name, "error") || strings.Contains(name, "down") {
				_, body, _ := strings.Cut(string(upstreamtest.Recording(f, name)), "\r\n\r\n")
				f.Add([]byte(body))
			}
		}
	}
	for _, s := range []string{"", "\xef\xbb\xbf", "[", "{}", "<p>", `{"error":{"name":"a b","code":"X"}}`, `{"errors":[]}`, `{"error":"\u001b[31m"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		said, is := readEnvelope(body, false)
		if !is && said != (envelope{}) || said.name != "" && !wordPattern.MatchString(said.name) {
			t.Fatalf("%q: %+v, %t", body, said, is)
		}
		err := checkBody(body, nil)
		if err == nil {
			return
		}
		found, ok := errors.AsType[*FaultError](err)
		if !ok || found.Kind != FaultDamaged && found.Kind != FaultPage {
			t.Fatalf("%q: %#v", body, err)
		}
		if text := fmt.Sprint(err); len(text) > 200 || strings.ContainsFunc(text, unicode.IsControl) {
			t.Fatalf("%q: %q", body, text)
		}
	})
}

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

// TestNoErrorOfAConnectionQuotesIt has a server of another protocol, and one that is silent.
func TestNoErrorOfAConnectionQuotesIt(t *testing.T) {
	for sent, want := range map[string]string{
		"\x00\x00\x12\x04hush\r\n\r\n":      "the answer is no HTTP/1.1",
		"HTTP/1.1 200 OK\r\nX hush\r\n\r\n": "the answer is no HTTP/1.1",
		"HTTP/1.1 2oo hush\r\n\r\n":         "the answer is no HTTP/1.1",
		"":                                  "closed without an answer (vitrine speaks HTTP/1.1)",
	} {
		base, err := ParseBase("http://" + testkit.Accept(t, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, sent)
		}))
		testkit.Must(t, err)
		c := New(base, Options{Logger: slog.New(slog.DiscardHandler)})
		_, err = c.Do(t.Context(), Request{Path: "x", Limit: Limit{new(atomic.Int64), 9}})
		if err == nil || !strings.HasSuffix(err.Error(), ": "+want) || Code(err) != "unreachable" {
			t.Errorf("%q: %v", sent, err)
		}
		c.Close()
	}
}

// TestAConnectionIsUsedForAMinute has a CMS whose connections would stay open for ever.
func TestAConnectionIsUsedForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		dial := func(context.Context, string, string) (net.Conn, error) {
			dials++
			ours, theirs := net.Pipe()
			go func() {
				for in := bufio.NewReader(theirs); ; {
					if _, err := http.ReadRequest(in); err != nil {
						return
					}
					_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]")
				}
			}()
			return ours, nil
		}
		base, err := ParseBase("http://cms")
		testkit.Must(t, err)
		c := New(base, Options{Transport: &http.Transport{DialContext: dial}, Logger: slog.New(slog.DiscardHandler)})
		defer c.Close()
		left := new(atomic.Int64)
		left.Store(1000)
		for _, want := range []int{1, 1, 2} {
			_, err := c.Do(t.Context(), Request{Path: "x", Limit: Limit{left, 1000}})
			if testkit.Must(t, err); dials != want {
				t.Errorf("%d connections, want %d", dials, want)
			}
			<-time.After(31 * time.Second)
		}
	})
}
