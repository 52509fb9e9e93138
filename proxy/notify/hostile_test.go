package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"vitrine/cmd/testkit"
	"vitrine/config/source"
)

// What a target can do to who tells it: each costs a bounded number of requests, and bytes, and
// says why without a secret.
func TestAHostileTargetCostsLittleAndIsNamed(t *testing.T) {
	elsewhere := newReceiver(t)
	t.Cleanup(func() {
		if n := len(elsewhere.received()); n != 0 {
			t.Errorf("%d requests went to another host", n)
		}
	})
	for name, test := range map[string]struct {
		answer   http.HandlerFunc
		requests int
		reason   string
	}{
		"500": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			_, _ = fmt.Fprint(w, "no, ", r.URL.Query().Get("key"), "\x1b[31m", r.Header.Get("X-Key"))
		}, 1, `status 500 no, ********\x1b[31m********`},
		"redirect to another host": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, 1, "a redirect that is not followed"},
		"no answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 1, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t)
			r.reply(test.answer)
			sender := newSender(t, "  - {name: own, method: POST, url: '"+r.URL+"', path: '?key={token}', token: hunter1, secret: hunter2, headers: {X-Key: '{secret}'}}\n")
			err := sender.Send(t.Context(), event)
			if err == nil || !strings.Contains(err.Error(), test.reason) || strings.Contains(err.Error(), "hunter") || !strings.HasPrefix(err.Error(), "POST "+r.URL+": ") {
				t.Errorf("got %v, want %s", err, test.reason)
			}
			if n := len(r.received()); n != test.requests {
				t.Errorf("%d requests, want %d", n, test.requests)
			}
		})
	}
}

// raw is the URL of a target that writes what it likes to each connection, and how often it was
// asked.
func raw(t *testing.T, answer func(c net.Conn)) (url string, asked *atomic.Int64) {
	asked = new(atomic.Int64)
	return "http://" + testkit.Accept(t, func(c net.Conn) {
		asked.Add(1)
		_, _ = c.Read(make([]byte, 4<<10)) // the request, or most of it
		answer(c)
	}), asked
}

// TestATargetThatBreaksTheProtocolCostsLittleAndWritesNothingToATerminal: each ends within the time
// of a request, and with a reason that is short and visible.
func TestATargetThatBreaksTheProtocolCostsLittleAndWritesNothingToATerminal(t *testing.T) {
	forever := func(first, again string, pause time.Duration) func(net.Conn) {
		return func(c net.Conn) {
			for text := first; ; text = again {
				if _, err := io.WriteString(c, text); err != nil {
					return
				}
				<-time.After(pause)
			}
		}
	}
	const ok = "HTTP/1.1 200 OK\r\n"
	line := strings.Repeat("x", 1000)
	for name, test := range map[string]struct {
		answer  func(net.Conn)
		endless bool // until its time is over: that of the context here
	}{
		"headers without end":     {forever(ok, "X: "+line+"\r\n", 0), false},
		"a header without end":    {forever(ok+"X: ", line, 0), false},
		"slow headers":            {forever(ok, "X: y\r\n", 100*time.Millisecond), true},
		"103 without end":         {forever("", "HTTP/1.1 103 Early Hints\r\nLink: "+line+"\r\n\r\n", 0), false},
		"100 without end":         {forever("", "HTTP/1.1 100 Continue\r\n\r\n", 10*time.Millisecond), true},
		"a header that is none":   {func(c net.Conn) { _, _ = io.WriteString(c, ok+"\x1b[31mhunter1"+line+"\r\n\r\n") }, false},
		"no HTTP":                 {func(c net.Conn) { _, _ = io.WriteString(c, "\x1b]0;title\x07\r\n\r\n") }, false},
		"a redirect that is none": {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 307 No\r\nLocation: http://[\x1b\r\n\r\n") }, false},
		"a reset":                 {func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }, false},
		"another protocol": {func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		}, false},
		"another protocol, then silence": {func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}, false},
		"a body cut short": {func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 500 No\r\nContent-Length: 9999\r\n\r\n\x1b[31mhunter1")
		}, false},
		"a secret cut short": {func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 403 No\r\n\r\n"+strings.Repeat("x", 196)+"hunter1")
		}, false},
		"a secret cut in the read": {func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 403 No\r\n\r\n"+strings.Repeat("hunter1 ", 511)+"1234hunter1")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, asked := raw(t, test.answer)
			sender := newSender(t, "  - {name: own, method: POST, url: '"+url+"', token: hunter1, headers: {X-Key: '{token}'}}\n")
			within := 20 * time.Second
			if test.endless {
				within = 500 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			began := time.Now()
			err := sender.Send(ctx, event)
			if late := ctx.Err() != nil; late != test.endless || asked.Load() > 1 || late && time.Since(began) > 3*time.Second {
				t.Errorf("%d requests, late: %t, after %v", asked.Load(), late, time.Since(began))
			}
			if err == nil || len(err.Error()) > 400 || strings.Contains(err.Error(), "hunt") || strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Errorf("got %.1000q", err)
			}
		})
	}
}

// TestASecretIsMaskedHoweverItIsWritten: as it stands, in a URL, and in JSON.
func TestASecretIsMaskedHoweverItIsWritten(t *testing.T) {
	r := newReceiver(t)
	r.reply(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, r.URL.RawQuery, " ", url.PathEscape(`hun "<ter>&1`), " ", r.Header.Get("X-Key"))
	})
	sender := newSender(t, `  - name: own
    method: POST
    url: '`+r.URL+`'
    path: '?key={token}'
    token: 'hun "<ter>&1'
    headers: {X-Key: '{"key":"{token}"}', Content-Type: application/json}
    body: '{key: .reason}'
`)
	shown, err := sender.Dump(t.Context(), event)
	if err != nil || strings.Contains(shown, "ter") || strings.Count(shown, "********") != 1 {
		t.Errorf("%v\n%s", err, shown)
	}
	if err := sender.Send(t.Context(), event); err == nil || strings.Contains(err.Error(), "ter") || strings.Count(err.Error(), "********") != 3 {
		t.Error(err)
	}
}

func TestAnEndlessAnswerIsNotRead(t *testing.T) {
	r := newReceiver(t)
	var sent atomic.Int64
	ended := make(chan struct{})
	r.reply(func(w http.ResponseWriter, _ *http.Request) {
		defer close(ended)
		for block := make([]byte, 1<<20); sent.Load() < 10<<30; sent.Add(int64(len(block))) {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	sender := newSender(t, "  - {name: own, preset: webhook, url: '"+r.URL+"'}\n")
	testkit.Must(t, sender.Send(t.Context(), event))
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the answer is still being read")
	}
	if n := sent.Load(); n > 64<<20 { // the buffers of both sockets
		t.Errorf("%d bytes of the answer were taken", n)
	}
}

// TestAnEndpointThatCannotBeReachedIsNamedWithItsReason: one has a certificate that nobody signed, and
// nothing listens at the other.
func TestAnEndpointThatCannotBeReachedIsNamedWithItsReason(t *testing.T) {
	secure, closed := httptest.NewTLSServer(http.NotFoundHandler()), httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	closed.Close()
	for url, want := range map[string]string{secure.URL: "certificate", closed.URL: "connection refused"} {
		sender := newSender(t, "  - {name: own, preset: webhook, url: '"+url+"'}\n")
		if err := sender.Send(t.Context(), event); err == nil || !strings.HasPrefix(err.Error(), "POST "+url+": ") || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}

// TestWordsOfTheCMSAreNeitherAMentionNorALinkInAChat: Slack makes mentions and links of <...>, and
// links of addresses; Teams makes links of Markdown and addresses, and mentions of its own entities
// alone.
func TestWordsOfTheCMSAreNeitherAMentionNorALinkInAChat(t *testing.T) {
	hostile := event
	until := event.At
	hostile.Until, hostile.Command = &until, "vitrine accept banners"
	for _, name := range []string{
		"<!channel>", "<!here|x>", "<!subteam^S1>", "<@U024BE7LH>", "<#C024BE7LR>", "<https://evil.example|banners>", "&lt;!channel&gt;", "@channel", "@everyone",
		"https://evil.example", "http://127.0.0.1/x", "www.evil.example", "evil.example/x", "mailto:a@evil.example", "a@evil.example", "<at>everyone</at>",
		"[banners](https://evil.example)", "![x](https://evil.example/x.png)", "<mailto:a@evil.example|x>", `"},{"type":"x"`, "\u202e<!channel>\n@here", "<script>",
	} {
		hostile.Event, hostile.Reason = source.EventHeld, name
		for _, preset := range []string{"slack", "teams"} {
			r := newReceiver(t)
			testkit.Must(t, newSender(t, "  - {name: chat, preset: "+preset+", url: '"+r.URL+"'}\n").Send(t.Context(), hostile))
			body := r.received()[0].body
			var slack struct{ Text *string }
			var teams struct {
				Attachments []struct {
					Content struct {
						Body    []struct{ Inlines []struct{ Type, Text string } }
						MSTeams any
					}
				}
			}
			testkit.Must(t, errors.Join(json.Unmarshal([]byte(body), &slack), json.Unmarshal([]byte(body), &teams)))
			var shown string
			if preset == "slack" {
				shown = *slack.Text
				if strings.ContainsAny(shown, "<>") || strings.Contains(strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "").Replace(shown), "&") {
					t.Errorf("%s: %s", name, shown)
				}
			} else {
				for _, block := range teams.Attachments[0].Content.Body {
					for _, run := range block.Inlines {
						if shown += run.Text; run.Type != "TextRun" {
							t.Errorf("%s: %+v", name, run)
						}
					}
				}
			}
			if regexp.MustCompile(`[@#.:/][^\x{200b}]`).MatchString(shown) || strings.Contains(body, "entities") {
				t.Errorf("%s in %s: %q", name, preset, shown)
			}
			plain := strings.ReplaceAll(shown, "\u200b", "")
			if preset == "slack" {
				plain = html.UnescapeString(plain)
			}
			if !strings.Contains(plain, name) || !strings.Contains(plain, "accept it with vitrine accept banners") {
				t.Errorf("%s in %s reads %q", name, preset, plain)
			}
		}
	}
}
