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
	"slices"
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

// rig is a hook whose purges come on a channel.
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
	return r
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
	if lines := strings.Count(r.log.String(), "webhook call refused"); lines != 1 || strings.Contains(r.log.String(), secret) {
		t.Errorf("%d lines for the refusals of a minute, want 1, and no secret:\n%s", lines, r.log)
	}
	if r.counts["accepted"] != 5 || r.counts["refused"] != 7 {
		t.Errorf("counted %v", r.counts)
	}
}

func TestADeliveryPurgesWhatItConcernsBeforeItsAnswer(t *testing.T) {
	match := func(_ context.Context, body []byte) (concerned []shape.Resource, err error) {
		if bytes.Contains(body, []byte("broken")) {
			return nil, errors.New("broken")
		}
		for _, r := range shape.Resources() {
			if bytes.Contains(body, []byte(r)) {
				concerned = append(concerned, r)
			}
		}
		return concerned, nil
	}
	away := false
	var purged []shape.Resource
	r := newRig(t, Options{Match: match, Purge: func(_ context.Context, res shape.Resource) error {
		if purged = append(purged, res); away && res == shape.Rules {
			return errors.New("redis is away")
		}
		return nil
	}})
	for _, test := range []struct {
		body    string
		away    bool
		status  int
		outcome string
		purged  []shape.Resource
	}{
		{"banners", false, 202, "accepted", []shape.Resource{shape.Banners}},
		{"rules banners", false, 202, "accepted", []shape.Resource{shape.Rules, shape.Banners}},
		{"rules banners", true, 503, "failed", []shape.Resource{shape.Rules, shape.Banners}},
		{"nothing of ours", false, 202, "unmatched", nil},
		{"broken", false, 400, "unreadable", nil},
	} {
		before := r.counts[test.outcome]
		away, purged = test.away, nil
		if got := r.deliver(test.body, "Authorization: Bearer "+secret); got != test.status || !slices.Equal(purged, test.purged) || r.counts[test.outcome] != before+1 {
			t.Errorf("%+v: %d, purged %v, counted %v", test, got, purged, r.counts)
		}
	}
}

// TestACallerThatDoesNotWaitIsServed: WordPress closes the connection once it has sent its body.
func TestACallerThatDoesNotWaitIsServed(t *testing.T) {
	purged := make(chan error, 1)
	gone, leave := context.WithCancel(t.Context())
	r := newRig(t, Options{
		Match: func(ctx context.Context, _ []byte) ([]shape.Resource, error) {
			leave()
			return []shape.Resource{shape.Rules}, ctx.Err()
		},
		Purge: func(ctx context.Context, _ shape.Resource) error { purged <- ctx.Err(); return nil },
	})
	request := httptest.NewRequestWithContext(gone, http.MethodPost, Path, strings.NewReader("{}"))
	request.Header.Set("Authorization", "Bearer "+secret)
	r.ServeHTTP(httptest.NewRecorder(), request)
	testkit.Check(t, testkit.Receive(t, purged))
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
