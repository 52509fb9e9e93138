package proxy

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"vitrine/cmd/testkit"
	"vitrine/proxy/represent"
)

// TestAPreparedAnswerFollowsItsHeaderOrNothing has fasthttp's writer flush the header in all the
// ways that a later release might.
func TestAPreparedAnswerFollowsItsHeaderOrNothing(t *testing.T) {
	r := newRig(t, Options{})
	var response fasthttp.Response
	response.SkipBody = true
	response.Header.SetContentLength(4)
	var header strings.Builder
	flush := bufio.NewWriter(&header)
	testkit.Must(t, errors.Join(response.Write(flush), flush.Flush()))
	whole := header.String()
	for name, tc := range map[string]struct {
		flushes []string
		want    bool
	}{
		"as it is":                    {[]string{whole}, true},
		"in two":                      {[]string{whole[:20], whole[20:]}, false},
		"without its end":             {[]string{whole[:len(whole)-2]}, false},
		"with a body":                 {[]string{whole + "body"}, false},
		"with the next one":           {[]string{whole + whole}, false},
		"of another status":           {[]string{strings.Replace(whole, "200 OK", "500 Internal Server Error", 1)}, false},
		"larger than the room for it": {[]string{whole[:len(whole)-2] + "X: " + strings.Repeat("x", ownRoom) + "\r\n\r\n"}, false},
	} {
		w := &wire{end: io.EOF}
		r.server.open.Add(1)
		c := clientIn(r.server.newClient(w))
		out := newOutgoing()
		out.status = fasthttp.StatusOK
		out.add([]byte("ETag: x\r\n\r\n"))
		out.content(&represent.Representation{Body: []byte("body")}, represent.Lease{})
		c.prepare(out)
		var err error
		for _, flush := range tc.flushes {
			_, e := c.Write([]byte(flush))
			err = errors.Join(err, e)
			if e != nil {
				break // as fasthttp does
			}
		}
		got := w.answered.String()
		if want := whole[:len(whole)-2] + "ETag: x\r\n\r\nbody"; tc.want && (got != want || err != nil) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if !tc.want && (got != "" || !errors.Is(err, errFlush) || !w.closed) {
			t.Errorf("%s: %q, %v, closed %t", name, got, err, w.closed)
		}
		_ = c.Close()
	}
	if !strings.Contains(r.log.String(), "connection closed before an answer") {
		t.Error("nothing is logged")
	}
}
