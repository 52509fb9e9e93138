package proxy

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// ask gives a server the pieces that a client sends, one for each read and then nothing more until
// its time is over, and returns all that the server wrote.
func ask(cs *Connections, pieces ...string) string {
	w := &wire{end: os.ErrDeadlineExceeded}
	for _, p := range pieces {
		w.sent = append(w.sent, []byte(p))
	}
	_ = cs.http.ServeConn(cs.newClient(w)) // its error is about what was sent
	return w.answered.String()
}

// statuses are those of the answers to requests of these methods, and whatever is left after them.
func statuses(t *testing.T, answers string, methods ...string) (all []int, rest string) {
	t.Helper()
	from := bufio.NewReader(strings.NewReader(answers))
	for _, m := range methods {
		resp, err := http.ReadResponse(from, &http.Request{Method: m})
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %q", err, answers)
		}
		all = append(all, resp.StatusCode)
		_, err = io.Copy(io.Discard, resp.Body)
		testkit.Must(t, err)
		_ = resp.Body.Close()
	}
	left, _ := io.ReadAll(from)
	return all, string(left)
}

const (
	head = "POST /gvapp/ HTTP/1.1\r\nHost: x\r\n"
	get  = "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n"
)

func TestAllThatIsReadOfABodyCounts(t *testing.T) {
	s := newRig(t, Options{Limits: Limits{MaxBodyBytes: 1000}}).connections
	chunked := head + "Transfer-Encoding: chunked\r\n\r\n"
	long := strings.Repeat("x", 1000)
	for name, tc := range map[string]struct {
		sent string
		want int
	}{
		"within":               {chunked + "3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n", 405},
		"just within":          {chunked + "1;" + long[:1000-2-2-3-5] + "\r\na\r\n0\r\n\r\n", 405},
		"just beyond":          {chunked + "1;" + long[:1000-2-2-3-5+1] + "\r\na\r\n0\r\n\r\n", 413},
		"an extension":         {chunked + "1;" + long + long, 413},
		"many lines":           {chunked + strings.Repeat("1\r\na\r\n", 200), 413},
		"a trailer":            {chunked + "1\r\na\r\n0\r\nX: " + long, 413},
		"a chunk":              {chunked + "3e8\r\n", 413},
		"a chunk beyond all":   {chunked + "ffffffffffffff\r\n", 413},
		"a length":             {head + "Content-Length: 1001\r\n\r\n", 413},
		"a length just within": {head + "Content-Length: 1000\r\n\r\n" + long, 405},
	} {
		if got, rest := statuses(t, ask(s, tc.sent), "POST"); len(got) != 1 || got[0] != tc.want || rest != "" {
			t.Errorf("%s: %d %q, want %d", name, got, rest, tc.want)
		}
	}
}

func TestALineThatEndsInABareLFIsRefusedAtOnce(t *testing.T) {
	s := newRig(t, Options{}).connections
	chunked := head + "Transfer-Encoding: chunked\r\n\r\n"
	for name, sent := range map[string]string{
		"the request line":        "GET /gvapp/ HTTP/1.1\n",
		"a field":                 head + "X: y\n",
		"the end of the header":   head + "\n",
		"a header of LF":          "GET /gvapp/ HTTP/1.1\nHost: a\n\n",
		"after a length":          head + "Content-Length: 3\r\n\n",
		"the size of a chunk":     chunked + "1\n",
		"an extension":            chunked + "1;a=b\n",
		"a chunk":                 chunked + "1\r\na\n",
		"the end of the trailers": chunked + "0\r\n\n",
		"a trailer":               chunked + "0\r\nX: y\n",
		"after a trailer":         chunked + "0\r\nX: y\r\n\n",
	} {
		for _, more := range []string{"", "\r\n", "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n"} {
			if got, _ := statuses(t, ask(s, sent+more), "POST", "GET"); len(got) != 1 || got[0] != 400 {
				t.Errorf("%s, followed by %q: %d", name, more, got)
			}
		}
	}
	if got, _ := statuses(t, ask(s, head+"Content-Length: 3\r\n\r\na\nbGET / HTTP/1.1\r\nHost: x\r\n\r\n"), "POST", "GET"); len(got) != 2 || got[0] != 405 || got[1] != 404 {
		t.Errorf("an LF in content: %d", got)
	}
}

func TestATargetThatFillsTheBufferIs414WhateverCameBefore(t *testing.T) {
	s := newRig(t, Options{Limits: Limits{MaxTargetBytes: 512, MaxHeaderBytes: 1024}}).connections
	long := strings.Repeat("x", 10_000)
	for sent, want := range map[string]int{
		"GET /" + long: 414,
		"GET /" + long + " HTTP/1.1\r\nHost: x\r\n\r\n": 414,
		long: 414,
		"GET / HTTP/1.1\r\nX: " + long + "\r\n\r\n":                      431,
		"GET / HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", 1000) + "\r\n": 431,
	} {
		for before, methods := range map[string][]string{"": {"GET"}, "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n": {"GET", "GET"}} {
			answers := ask(s, before+sent)
			if got, _ := statuses(t, answers, methods...); len(got) != len(methods) || got[len(got)-1] != want || !strings.Contains(answers, `{"detail":"Request `) {
				t.Errorf("%.60q: %d, want %d", before+sent, got, want)
			}
		}
	}
}

func TestRFC9110Section10_1_1A100IsSentWhereContentIsToCome(t *testing.T) {
	s := newRig(t, Options{Limits: Limits{MaxBodyBytes: 1000}}).connections
	for _, tc := range []struct {
		head string
		body string
		asks bool
	}{
		{"GET /gvapp/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n", "abc", true},
		{"GET /gvapp/ HTTP/1.1\r\nHost: x\r\nexpect: 100-Continue\r\nContent-Length: 3\r\n\r\n", "abc", true},
		{"GET /gvapp/ HTTP/1.1\r\nHost: x\r\nExpect: 100-CONTINUE\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n", true},
		{"GET /gvapp/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n", "", false},
		{"HEAD /gvapp/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n", "", false},
		{"HEAD /gvapp/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n", "", false},
		{"GET /gvapp/ HTTP/1.0\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n", "abc", false},
	} {
		const interim = "HTTP/1.1 100 Continue\r\n\r\n"
		if got := ask(s, tc.head, tc.body); strings.Contains(got, interim) != tc.asks || !strings.Contains(got, " 200 OK\r\n") {
			t.Errorf("%q, then the content: %.100q", tc.head, got)
		}
		if got := ask(s, tc.head+tc.body[:min(1, len(tc.body))], tc.body[min(1, len(tc.body)):]); strings.Contains(got, interim) || !strings.Contains(got, " 200 OK\r\n") {
			t.Errorf("%q with content: %.100q", tc.head, got)
		}
	}
	if got := ask(s, head+"Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 413 ") {
		t.Errorf("content beyond the limit: %.100q", got)
	}
}

// The time to write an answer begins again with a 100: that of the answer before may be over.
func TestA100IsSentOnAConnectionThatWasIdleForLongerThanAWriteTakes(t *testing.T) {
	conn := newRig(t, Options{Limits: Limits{WriteTimeout: 250 * time.Millisecond}}).dial(t)
	from := bufio.NewReader(conn)
	for i, sent := range []string{
		"GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /gvapp/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
	} {
		if i > 0 {
			<-time.After(400 * time.Millisecond)
		}
		testkit.Write(t, conn, sent)
		if i > 0 {
			if got, err := from.Peek(len(continues)); string(got) != continues {
				t.Fatalf("%q, %v", got, err)
			}
			testkit.Write(t, conn, "abc")
		}
		if got := readReply(t, from, "GET").StatusCode; got != http.StatusOK {
			t.Errorf("request %d: status %d", i, got)
		}
	}
}

func TestErrorsHaveNoBodyInAnswerToHEAD(t *testing.T) {
	s := newRig(t, Options{Limits: Limits{MaxBodyBytes: 10, MaxHeaderBytes: 1024, MaxTargetBytes: 512}}).connections
	const first = "HEAD /gvapp/ HTTP/1.1\r\nHost: x\r\n"
	for name, sent := range map[string]string{
		"a length beyond the limit": first + "Content-Length: 11\r\n\r\n",
		"chunks beyond the limit":   first + "Transfer-Encoding: chunked\r\n\r\n11\r\n",
		"no chunk":                  first + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
		"a name with a blank":       first + "a b: c\r\n\r\n",
		"two lengths":               first + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"another coding":            first + "Transfer-Encoding: foo\r\n\r\n",
		"no Host":                   "HEAD /gvapp/ HTTP/1.1\r\n\r\n",
		"a bare LF":                 first + "X: y\n",
		"a folded line":             first + "X: y\r\n z\r\n\r\n",
		"a buffer that is full":     first + "X: " + strings.Repeat("x", 2000),
		"a long target":             "HEAD /" + strings.Repeat("x", 2000),
		"it does not end":           first,
	} {
		for before, methods := range map[string][]string{"": {"HEAD"}, get: {"GET", "HEAD"}} {
			for _, after := range []string{"", get} {
				got, rest := statuses(t, ask(s, before+sent+after), methods...)
				if len(got) != len(methods) || got[len(got)-1] < 400 || rest != "" {
					t.Errorf("%s: %d and then %q", name, got, rest)
				}
			}
		}
	}
	if got := ask(s, strings.Repeat(first+"\r\n", 70)+get+"HEAD\r\n"); !strings.HasSuffix(got, `{"detail":"Malformed request."}`) {
		t.Errorf("what is no request is answered %q", got[max(0, len(got)-100):])
	}
}

func TestARequestOfHTTP10WithoutFieldsIsLogged(t *testing.T) {
	log := new(testkit.Buffer)
	s := newRig(t, Options{AccessLog: slog.New(slog.NewJSONHandler(log, nil))}).connections
	ask(s, "GET /gvapp/?hidden HTTP/1.0\r\n\r\n")
	ask(s, "GET / HTTP/1.0\r\n\r\n")
	ask(s, "GET /\r\n\r\n")
	lines := logged(t, log)
	if len(lines) != 3 {
		t.Fatalf("%v", lines)
	}
	for i, want := range []string{"/gvapp/?hidden", "/", ""} {
		if target, _ := lines[i]["target"].(string); target != want || (lines[i]["method"] == "GET") != (want != "") {
			t.Errorf("%v, want %q", lines[i], want)
		}
	}
}
