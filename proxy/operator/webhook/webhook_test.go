package webhook

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

const secret = "the-secret-of-the-cms"

func sign(text string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// rig is a hook whose purges are told on a channel.
type rig struct {
	*Hook
	purged chan shape.Resource
	mu     sync.Mutex // guards counts while deliveries are under way
	counts map[string]int
	log    *bytes.Buffer
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	r := &rig{purged: make(chan shape.Resource, 100), counts: map[string]int{}, log: new(bytes.Buffer)}
	o.Secret, o.Count, o.Logger = secret, func(s string) { r.mu.Lock(); defer r.mu.Unlock(); r.counts[s]++ }, slog.New(slog.NewTextHandler(r.log, nil))
	if o.Purge == nil {
		o.Purge = func(_ context.Context, res shape.Resource) error { r.purged <- res; return nil }
	}
	if o.SignatureHeader == "" {
		o.SignatureHeader = "X-Vitrine-Signature"
	}
	if o.Match == nil {
		o.Match = func(context.Context, []byte) ([]shape.Resource, error) { return shape.Resources(), nil }
	}
	r.Hook = New(o)
	r.pause = time.Millisecond
	return r
}

// run has it purge until end is called.
func (r *rig) run(t *testing.T) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	return func() {
		cancel()
		testkit.Receive(t, ended)
	}
}

// deliver sends body with the given fields, "Name: value".
func (r *rig) deliver(body string, fields ...string) int {
	request := httptest.NewRequest(http.MethodPost, "/hooks/content", strings.NewReader(body))
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		request.Header.Set(name, value)
	}
	recorder := httptest.NewRecorder()
	r.ServeHTTP(recorder, request)
	return recorder.Code
}

func TestADeliveryHasToKnowTheSecret(t *testing.T) {
	r := newRig(t, Options{SignatureHeader: "X-Hub-Signature-256"})
	const body = `{"event":"entry.update"}`
	sum := sign(body)
	for field, want := range map[string]int{
		"X-Hub-Signature-256: sha256=" + hex.EncodeToString(sum):            202,
		"X-Hub-Signature-256: " + hex.EncodeToString(sum):                   202,
		"X-Hub-Signature-256: " + base64.StdEncoding.EncodeToString(sum):    202,
		"Authorization: Bearer " + secret:                                   202,
		"Authorization: Bearer " + secret + "x":                             401,
		"Authorization: Bearer ":                                            401,
		"Authorization: Basic " + secret:                                    401,
		"X-Hub-Signature-256: sha256=" + hex.EncodeToString(sign(body+" ")): 401,
		"X-Hub-Signature-256: sha256=" + hex.EncodeToString(sum[:16]):       401,
		"X-Hub-Signature-256: ":                                             401,
		"X-Vitrine-Signature: " + hex.EncodeToString(sum):                   401,
	} {
		if got := r.deliver(body, field); got != want {
			t.Errorf("%s: %d, want %d", field, got, want)
		}
	}
	if got := r.deliver(body, "Authorization: Bearer of-a-proxy", "X-Hub-Signature-256: "+hex.EncodeToString(sum)); got != 202 {
		t.Errorf("a signature beside somebody else's token: %d", got)
	}
	if lines := strings.Count(r.log.String(), "webhook delivery refused"); lines != 1 || strings.Contains(r.log.String(), secret) {
		t.Errorf("%d lines for the refusals of a minute, want 1, and no secret:\n%s", lines, r.log)
	}
	if r.counts["accepted"] != 5 || r.counts["refused"] != 7 {
		t.Errorf("counted %v", r.counts)
	}
}

func TestADeliveryPurgesWhatItConcernsOnceForMany(t *testing.T) {
	match := func(_ context.Context, body []byte) (concerned []shape.Resource, err error) {
		if bytes.Contains(body, []byte("broken")) {
			return nil, errors.New("broken")
		}
		for word, r := range map[string]shape.Resource{"artist": shape.Catalogue, "rule": shape.Rules, "banner": shape.Banners} {
			if bytes.Contains(body, []byte(word)) {
				concerned = append(concerned, r)
			}
		}
		return concerned, nil
	}
	release, entered := make(chan struct{}), make(chan shape.Resource, 10)
	r := newRig(t, Options{
		Match: match,
		Purge: func(_ context.Context, res shape.Resource) error {
			entered <- res
			<-release
			return nil
		},
	})
	end := r.run(t)
	authorized := "Authorization: Bearer " + secret
	if got := r.deliver("banner", authorized); got != 202 {
		t.Fatal(got)
	}
	if got := testkit.Receive(t, entered); got != shape.Banners {
		t.Errorf("purges %s", got)
	}
	for range 50 { // while it purges
		r.deliver("banner rule", authorized)
	}
	close(release)
	if a, b := testkit.Receive(t, entered), testkit.Receive(t, entered); a != shape.Rules || b != shape.Banners {
		t.Errorf("then %s and %s", a, b)
	}
	if got := r.deliver("nothing of ours", authorized); got != 202 || r.counts["unmatched"] != 1 {
		t.Errorf("unmatched: %d %v", got, r.counts)
	}
	if got := r.deliver("broken", authorized); got != 400 || r.counts["unreadable"] != 1 {
		t.Errorf("broken: %d %v", got, r.counts)
	}
	end()
	if len(entered) > 0 {
		t.Errorf("%d more purges", len(entered))
	}
}

func TestADeliveryThatMatchesNothingDelaysNoOther(t *testing.T) {
	r := newRig(t, Options{Match: func(_ context.Context, body []byte) ([]shape.Resource, error) {
		if string(body) == "{}" {
			return nil, nil
		}
		return []shape.Resource{shape.Banners}, nil
	}})
	r.pause = time.Hour
	end := r.run(t)
	authorized := "Authorization: Bearer " + secret
	if got := r.deliver("{}", authorized); got != 202 {
		t.Fatal(got)
	}
	testkit.Eventually(t, "the delivery is received", func() bool { return len(r.wake) == 0 })
	r.deliver(`{"model":"banner"}`, authorized)
	testkit.Receive(t, r.purged)
	end()
}

// TestADeliveryThatWasAcceptedIsPurgedAlsoIfTheHookEnds has one wait for the pause after another.
func TestADeliveryThatWasAcceptedIsPurgedAlsoIfTheHookEnds(t *testing.T) {
	purged := make(chan error, 10)
	r := newRig(t, Options{
		Match: func(context.Context, []byte) ([]shape.Resource, error) { return []shape.Resource{shape.Rules}, nil },
		Purge: func(ctx context.Context, _ shape.Resource) error { purged <- ctx.Err(); return ctx.Err() },
	})
	r.pause = time.Hour
	end := r.run(t)
	r.deliver("{}", "Authorization: Bearer "+secret)
	testkit.Check(t, testkit.Receive(t, purged))
	r.deliver("{}", "Authorization: Bearer "+secret)
	end()
	testkit.Check(t, testkit.Receive(t, purged))
}

func TestAPurgeThatFailsIsDoneAgain(t *testing.T) {
	tries := make(chan int, 10)
	n := 0
	r := newRig(t, Options{Purge: func(context.Context, shape.Resource) error {
		n++
		tries <- n
		if n <= 3 {
			return errors.New("redis is away")
		}
		return nil
	}})
	end := r.run(t)
	r.deliver("{}", "Authorization: Bearer "+secret)
	for range 6 { // three that fail, and three again
		testkit.Receive(t, tries)
	}
	end()
}

func TestADeliveryIsBounded(t *testing.T) {
	r := newRig(t, Options{})
	if got := r.deliver(strings.Repeat("1", maxBytes+1), "Authorization: Bearer "+secret); got != 413 {
		t.Errorf("a byte too many: %d", got)
	}
	recorder := httptest.NewRecorder()
	r.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/hooks/content", nil))
	if recorder.Code != 405 || recorder.Header().Get("Allow") != "POST" {
		t.Errorf("GET: %d", recorder.Code)
	}
}

func TestABodyThatDoesNotComeIsGivenUp(t *testing.T) {
	r := newRig(t, Options{})
	r.patience = 20 * time.Millisecond
	server := httptest.NewServer(r)
	defer server.Close()
	conn := testkit.Dial(t, "tcp", server.Listener.Addr().String())
	testkit.Write(t, conn, "POST "+Path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nAuthorization: Bearer "+secret+"\r\n\r\n{")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testkit.Must(t, err)
	defer answer.Body.Close()
	if answer.StatusCode != 400 || !answer.Close {
		t.Errorf("status %d, connection closed: %v", answer.StatusCode, answer.Close)
	}
}

func TestABodyIsReadOnlyFromSomebodyWhoMayKnowTheSecretAndFromFewAtOnce(t *testing.T) {
	server := httptest.NewServer(newRig(t, Options{}))
	t.Cleanup(server.Close) // after the connections
	begin := func(field string) net.Conn {
		conn := testkit.Dial(t, "tcp", server.Listener.Addr().String())
		testkit.Write(t, conn, "POST "+Path+" HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"+field+"\r\n\r\n")
		return conn
	}
	status := func(conn net.Conn) string {
		line, err := bufio.NewReader(conn).ReadString('\n')
		testkit.Must(t, err)
		return strings.TrimSpace(line)
	}
	for _, field := range []string{"X: y", "Authorization: Bearer wrong", "X-Vitrine-Signature: 00", "X-Vitrine-Signature: no hexadecimal"} {
		if got := status(begin(field)); !strings.Contains(got, " 401 ") {
			t.Errorf("%s: %s, want 401 without the body", field, got)
		}
	}
	signed := "X-Vitrine-Signature: " + hex.EncodeToString(sign("{}"))
	for range maxBodies { // each is asked for its body, and withholds it
		if got := status(begin(signed)); !strings.Contains(got, " 100 ") {
			t.Fatalf("%s, want 100", got)
		}
	}
	if got := status(begin(signed)); !strings.Contains(got, " 503 ") {
		t.Errorf("with %d bodies on their way: %s, want 503", maxBodies, got)
	}
	if got := status(begin("Authorization: Bearer " + secret)); !strings.Contains(got, " 100 ") {
		t.Errorf("with the token, beside bodies that nobody has proven: %s, want 100", got)
	}
}

// FuzzSignature: whatever is decoded is what the text encodes, in hexadecimal or base64.
func FuzzSignature(f *testing.F) {
	for _, s := range []string{"", "sha256=", "ab", "sha256=AB ", "q83v", "sha256=sha256=ab", "====", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sum := signature(text)
		if len(sum) > len(text) {
			t.Fatalf("%q: %d bytes", text, len(sum))
		}
		if len(sum)%3 == 0 && len(sum) > 0 {
			for _, again := range []string{"sha256=" + hex.EncodeToString(sum), base64.StdEncoding.EncodeToString(sum)} {
				if _, err := hex.DecodeString(again); err != nil || again[0] == 's' {
					if string(signature(again)) != string(sum) {
						t.Fatalf("%q: %x, but %q: %x", text, sum, again, signature(again))
					}
				}
			}
		}
	})
}
