package notify_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cache"
	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/config"
	"vitrine/config/source"
	"vitrine/proxy/notify"
	"vitrine/proxy/verdict"
	"vitrine/upstream/shape"
)

// a request that a target has received.
type request struct {
	*http.Request
	body string
}

// A receiver is a target's server: what it received, and how it answers.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex // guards got
	got    []request
	answer atomic.Pointer[http.HandlerFunc] // nil: 204
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.got = append(r.got, request{req, string(body)})
		r.mu.Unlock()
		if answer := r.answer.Load(); answer != nil {
			(*answer)(w, req)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) reply(answer http.HandlerFunc) { r.answer.Store(&answer) }

func (r *receiver) received() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]request{}, r.got...)
}

// newSender is for one target, until the test ends.
func newSender(t *testing.T, item string) *notify.Sender {
	t.Helper()
	return notify.NewSender(targets(t, item)[0])
}

// targets are those of a configuration file.
func targets(t *testing.T, yaml string) []source.Target {
	t.Helper()
	file := filepath.Join(t.TempDir(), "vitrine.yaml")
	testkit.Must(t, os.WriteFile(file, []byte("notify:\n"+yaml), 0o600))
	c, err := config.Load(config.Sources{File: file})
	testkit.Must(t, err)
	return c.Notify
}

var event = notify.Event{
	ID: "0a1b", Event: source.EventChanged, Resource: "banners", Seq: 7, ETag: `"abc"`, At: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
}

// TestEachRequestHasAConnectionOfItsOwn: one that was kept can be closed by then, and the request would
// fail, or come twice.
func TestEachRequestHasAConnectionOfItsOwn(t *testing.T) {
	var asked atomic.Int64
	sender := newSender(t, "  - {name: it, preset: webhook, url: 'http://"+testkit.Accept(t, func(c net.Conn) {
		asked.Add(1)
		from := bufio.NewReader(c)
		if r, err := http.ReadRequest(from); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			fmt.Fprint(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
		_, _ = from.ReadByte()
		_, _ = io.WriteString(c, "HTTP/1.1 2")
	})+"'}\n")
	for i := range 3 {
		if err := sender.Send(t.Context(), event); err != nil {
			t.Errorf("event %d: %v", i, err)
		}
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("%d connections, want 3", n)
	}
}

// TestEachPresetSendsTheRequestThatIsDocumented: of Varnish by docs/deploy/proxies, of Cloudflare,
// Fastly and Next.js by their public documentation. No real one of the last three has been asked.
func TestEachPresetSendsTheRequestThatIsDocumented(t *testing.T) {
	const text = `{"at":"2026-11-20T12:00:00Z","etag":"\"abc\"","event":"changed","id":"0a1b","reason":"","resource":"banners","seq":7}`
	mac := hmac.New(sha256.New, []byte("hunter2&2"))
	mac.Write([]byte(text))
	for _, test := range []struct{ preset, item, method, uri, body, field, value string }{
		{"varnish", "", "BAN", "/", "", "Cache-Groups", `"banners"`},
		{"cloudflare", "zone: 023e105f, token: hunter1", "POST", "/client/v4/zones/023e105f/purge_cache", `{"tags":["banners"]}`, "Authorization", "Bearer hunter1"},
		{"fastly", "service: SU1Z0isxPaozGVKXdv0eY, token: hunter1", "POST", "/service/SU1Z0isxPaozGVKXdv0eY/purge/banners", "", "Fastly-Key", "hunter1"},
		{"nextjs", "secret: hunter2&2", "POST", "/?secret=hunter2%262&tag=banners", "", "Authorization", ""},
		{"webhook", "secret: hunter2&2", "POST", "/", text, "X-Vitrine-Signature", "sha256=" + hex.EncodeToString(mac.Sum(nil))},
		{"slack", "", "POST", "/", "{\"mrkdwn\":false,\"text\":\"banners:\u200b changed\",\"unfurl_links\":false,\"unfurl_media\":false}", "Content-Type", "application/json"},
		{"webhook", "reason: none", "POST", "/", text, "X-Vitrine-Signature", ""},
	} {
		t.Run(test.preset, func(t *testing.T) {
			r := newReceiver(t)
			test.item = strings.TrimPrefix(strings.Replace(test.item, "reason: none", "", 1)+", url: '"+r.URL+"'", ", ")
			sender := newSender(t, "  - {name: it, preset: "+test.preset+", "+test.item+"}\n")
			testkit.Must(t, sender.Send(t.Context(), event))
			got := r.received()[0]
			if got.Method != test.method || strings.TrimPrefix(got.RequestURI, "/?") != strings.TrimPrefix(test.uri, "/?") || got.body != test.body || got.Header.Get(test.field) != test.value {
				t.Errorf("%s %s, %s: %s\n%s\nwant %+v", got.Method, got.RequestURI, test.field, got.Header.Get(test.field), got.body, test)
			}
			if test.body != "" && (got.Header.Get("Content-Type") != "application/json" || !json.Valid([]byte(got.body))) {
				t.Errorf("%s: %s", got.Header.Get("Content-Type"), got.body)
			}
			shown, err := sender.Dump(t.Context(), event)
			if err != nil || strings.Contains(shown, "hunter") || !strings.HasPrefix(shown, test.method+" "+r.URL) {
				t.Errorf("%v\n%s", err, shown)
			}
		})
	}
}

func TestATargetOfOnesOwnIsWrittenInTheSameKeys(t *testing.T) {
	r := newReceiver(t)
	sender := notify.NewSender(targets(t, `  - name: own
    url: `+r.URL+`/purge
    method: PURGE
    path: /{resource}?key={token}
    token: a/b
    headers: {X-Event: "{event} {seq}", Content-Type: application/json}
    body: '{etag, event: .}'
`)[0])
	testkit.Must(t, sender.Send(t.Context(), event))
	got := r.received()[0]
	var body struct {
		ETag  string       `json:"etag"`
		Event notify.Event `json:"event"`
	}
	if err := json.Unmarshal([]byte(got.body), &body); err != nil || body.ETag != event.ETag || body.Event.ID != event.ID {
		t.Errorf("%v: %s", err, got.body)
	}
	if got.Method != "PURGE" || got.RequestURI != "/purge/banners?key=a%2Fb" || got.Header.Get("X-Event") != "changed 7" {
		t.Errorf("%s %s %v", got.Method, got.RequestURI, got.Header)
	}
}

const bound = 10 * time.Millisecond

// A fleet is some processes on one store, and the server of their target.
type fleet struct {
	t         *testing.T
	redis     *redistest.Server
	away      bool // it was killed
	pause     time.Duration
	bound     time.Duration // 0 is bound
	server    *receiver
	notifiers []*notify.Notifier
	stores    []*cache.Store
	ends      []func()

	mu     sync.Mutex // guards counts
	counts map[string]int
}

func newFleet(t *testing.T, size int, item string) *fleet {
	return newHastyFleet(t, size, item, 100*time.Millisecond)
}

// newHastyFleet is newFleet with another pause between two requests.
func newHastyFleet(t *testing.T, size int, item string, pause time.Duration) *fleet {
	t.Parallel()
	f := &fleet{t: t, pause: pause, redis: redistest.Start(t), server: newReceiver(t), counts: map[string]int{}}
	t.Cleanup(func() {
		for _, end := range f.ends {
			end()
		}
	})
	for range size {
		f.join(item)
	}
	return f
}

// join adds a process.
func (f *fleet) join(item string) {
	f.t.Helper()
	store, err := cache.Open(f.t.Context(), cache.Options{URL: f.redis.URL()})
	testkit.Must(f.t, err)
	n := notify.New(notify.Options{
		Targets: targets(f.t, "  - {name: it, url: '"+f.server.URL+"', "+item+"}\n"), Bound: cmp.Or(f.bound, bound), Pause: f.pause,
		Count: func(_, outcome string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.counts[outcome]++
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx, store)
	}()
	f.notifiers, f.stores = append(f.notifiers, n), append(f.stores, store)
	f.ends = append(f.ends, sync.OnceFunc(func() {
		cancel()
		testkit.Receive(f.t, done)
		_ = store.Close()
	}))
}

// set sets fields in a hash of Redis.
func (f *fleet) set(key string, fields ...any) {
	f.t.Helper()
	testkit.Must(f.t, f.redis.Client().HSet(f.t.Context(), key, fields...).Err())
}

// lockRecord is the key of that of a resource.
func lockRecord(resource string) string { return "vitrine:lease:{vitrine:" + resource + "}" }

// write has Redis at the place of s.
func (f *fleet) write(s cache.Sight) {
	f.t.Helper()
	seq := s.Seq
	if s.Purged {
		seq--
		testkit.Must(f.t, f.redis.Client().Del(f.t.Context(), "vitrine:"+s.Key).Err())
	} else {
		f.set("vitrine:"+s.Key, "set", s.Set, "seq", seq)
	}
	f.set(lockRecord(s.Key), "set", s.Set, "seq", seq)
}

// all has every process see s, which is of the first one.
func (f *fleet) all(s cache.Sight) {
	f.t.Helper()
	if !f.away {
		f.write(s)
	}
	for i, n := range f.notifiers {
		s.Own = i == 0
		n.Seen(s)
	}
}

// each has every process see one after the other, and tell of it.
func (f *fleet) each(sights ...cache.Sight) {
	f.t.Helper()
	for _, s := range sights {
		f.all(s)
		f.settled()
	}
}

// judged has every process judge the state of the banners, and tell of it.
func (f *fleet) judged(d verdict.Document) {
	f.t.Helper()
	for _, n := range f.notifiers {
		judged(n, d)
	}
	f.settled()
}

// judged has a process judge the state of the banners.
func judged(n *notify.Notifier, d verdict.Document) {
	d.Failing = d.Failures > 0
	s := verdict.Snapshot{Documents: map[shape.Resource]verdict.Document{shape.Banners: d}}
	n.Judged(s, verdict.Of(s))
}

// end ends the first process, which is never heard of again.
func (f *fleet) end() {
	f.ends[0]()
	f.notifiers = f.notifiers[1:]
}

// firstAndLast are the first event received and the last.
func (f *fleet) firstAndLast() (first, last notify.Event) {
	f.t.Helper()
	got := f.server.received()
	testkit.Must(f.t, errors.Join(json.Unmarshal([]byte(got[0].body), &first), json.Unmarshal([]byte(got[len(got)-1].body), &last)))
	return first, last
}

// told are the events received, in order, by name and number.
func (f *fleet) told() (all []string) {
	for _, r := range f.server.received() {
		var e notify.Event
		testkit.Check(f.t, json.Unmarshal([]byte(r.body), &e))
		all = append(all, fmt.Sprintf("%s %s %d %s", e.Resource, e.Event, e.Seq, e.ETag))
	}
	return all
}

// settled waits until nothing is pending in any process.
func (f *fleet) settled() {
	f.t.Helper()
	testkit.Eventually(f.t, "nothing is pending", func() bool {
		return !slices.ContainsFunc(f.notifiers, func(n *notify.Notifier) bool { return n.Status()[0].Pending > 0 })
	})
}

func (f *fleet) want(want ...string) {
	f.t.Helper()
	f.settled()
	if got := f.told(); !slices.Equal(got, want) {
		f.t.Errorf("told %q\nwant %q", got, want)
	}
}

// filled is the sight of a document with that number and content.
func filled(seq int64, id int) cache.Sight {
	body := []byte(fmt.Sprintf(`[{"id":%d}]`, id))
	if seq == 0 {
		body = nil
	}
	return cache.Sight{Key: "banners", Set: "S", Seq: seq, Document: &cache.Document{Body: body, ETag: cache.ETag(body)}}
}

func purged(seq int64) cache.Sight {
	return cache.Sight{Key: "banners", Set: "S", Seq: seq, Purged: true}
}

func tag(id int) string { return filled(1, id).Document.ETag }
