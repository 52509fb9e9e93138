package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/config/source"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// TestWhatACMSSendsIsReadInTimeLinearInIt has answers of a few megabytes on which one careless step
// would take minutes, and nothing would end it: neither the fetch's time nor SIGTERM.
func TestWhatACMSSendsIsReadInTimeLinearInIt(t *testing.T) {
	const megabytes = 2 << 20
	digits := strings.Repeat("9", megabytes)
	// The memory of decoded values is bounded by what came.
	gallery := `{"id":1,"excerpt":"` + strings.Repeat("x", 2<<20) + `","meta":{"tag":[` + strings.Repeat(`1,`, 10_000) + `1]}}`
	artists := ""
	for i := range 4_000 {
		artists += fmt.Sprintf(`{"id":%d,"meta":{"gallery_artists":1}},`, i)
	}
	for name, c := range map[string]struct {
		preset, artist, gallery string
		want                    string
	}{
		"total":     {"drf", `{"results":[],"next":null,"count":` + digits + `}`, "[]", "want a number of at most 1000 digits, got more"},
		"fraction":  {"drf", `{"results":[],"next":null,"count":1.` + digits + `}`, "[]", "want a number of at most 1000 digits, got more"},
		"link":      {"drf", `{"results":[],"next":"/` + strings.Repeat("a", megabytes) + strings.Repeat("/x/..", megabytes/5) + `"}`, "[]", "want values that take at most a few times"},
		"long link": {"drf", `{"results":[],"next":"/` + strings.Repeat("a", 100_000) + `"}`, "[]", "want a link or cursor of at most 16384 bytes"},
		"joined":    {"wordpress", "[" + artists[:len(artists)-1] + "]", "[" + gallery + "]", "want at most 8388608 bytes, got more"},
		"id":        {"wordpress", `[{"id":2,"meta":{"gallery_artists":` + digits + `}}]`, `[{"id":` + digits + `}]`, "want a number of at most 1000 digits, got more"},
	} {
		t.Run(name, func(t *testing.T) {
			client := threePaths(t, c.preset, 8<<20, c.artist, "[]", c.gallery, strings.Count(c.artist, `"id"`), 0, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
			defer cancel()
			began := time.Now()
			_, err := client.Fetch(ctx, shape.Catalogue, Held{})
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %v", took)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestWhatSurroundsAListTakesLittleMemory has eight megabytes of empty objects where a total
// belongs.
func TestWhatSurroundsAListTakesLittleMemory(t *testing.T) {
	body := `{"results":[],"next":null,"count":[` + strings.Repeat("{},", 8<<20/3) + `{}]}`
	client := newClient(t, "http://cms", func(o *options) {
		o.Transport = jsonCMS(func(*http.Request) (int, string) { return http.StatusOK, body })
	})
	var err error
	if n := testkit.Allocated(func() { _, err = client.Fetch(t.Context(), shape.Banners, Held{}) }); n > 6*len(body) {
		t.Errorf("%d bytes allocated for %d", n, len(body))
	}
	wantError(t, err, ErrAnswer, "want values that take at most a few times the memory of their JSON, got more")
}

// TestAnAnnouncedLengthReservesNoMemory has bodies that announce 32 MB and end after a few bytes.
func TestAnAnnouncedLengthReservesNoMemory(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Handle(shape.Banners, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "32000000")
		_, _ = io.WriteString(w, "[")
	}))
	client := newClient(t, cms.URL, nil)
	var err error
	if n := testkit.Allocated(func() { _, err = client.Fetch(t.Context(), shape.Banners, Held{}) }); n > 16<<20 {
		t.Errorf("%d bytes allocated", n)
	}
	wantError(t, err, ErrAnswer, "")
}

// TestThePartsOfADocumentShareItsLimitWhileTheyAreRead has two endless parts: together they may not
// send more than one could.
func TestThePartsOfADocumentShareItsLimitWhileTheyAreRead(t *testing.T) {
	var sent atomic.Int64
	client := newClient(t, "http://cms", func(o *options) {
		o.MaxBytes, o.Retries = 4<<20, 0
		o.Resources = map[shape.Resource]source.Resource{shape.Catalogue: {
			Parts: []source.Part{{Name: "artist", Path: "a"}, {Name: "artwork", Path: "b"}, {Name: "gallery", Path: "c"}},
		}}
		o.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
			body := &endless{sent: &sent, ctx: req.Context()}
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: -1, Request: req, Body: io.NopCloser(body),
			}, nil
		})
	})
	_, err := client.Fetch(t.Context(), shape.Catalogue, Held{})
	wantError(t, err, ErrAnswer, "the body is larger than 4194304 bytes")
	if n := sent.Load(); n > 5<<20 {
		t.Errorf("%d bytes were read", n)
	}
}

// endless is a body of blanks. Its readers take turns, each a little at a time.
type endless struct {
	sent *atomic.Int64
	ctx  context.Context
}

func (e *endless) Read(p []byte) (int, error) {
	select {
	case <-e.ctx.Done():
		return 0, e.ctx.Err()
	case <-time.After(time.Millisecond):
	}
	n := copy(p, bytes.Repeat([]byte(" "), min(len(p), 64<<10)))
	e.sent.Add(int64(n))
	return n, nil
}

// TestAllThatIsReadOfAResponseEndsWithTheFetch has responses that stall, or never end, in each
// place that a response has. None may outlive the timeout of its fetch, nor fill a log, nor have a
// secret of which the end is cut off.
func TestAllThatIsReadOfAResponseEndsWithTheFetch(t *testing.T) {
	const (
		timeout  = 300 * time.Millisecond
		upgraded = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
		chunked  = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
		long     = "Content-Type: application/json\r\nContent-Length: 3000\r\n\r\n{"
		field    = "X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n"
		secret   = `"0"1"2"3"4"5"6"7"8"9"a"b"c"d"e"f`
	)
	for name, c := range map[string]struct{ begin, more string }{
		"upgraded":           {upgraded, ""},
		"upgraded, talking":  {upgraded, "x"},
		"upgraded to a page": {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n" + long, "x"},
		"hints":              {"", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"},
		"nothing":            {"", ""},
		"fields":             {"HTTP/1.1 200 OK\r\n", field},
		"half a head":        {"HTTP/1.1 200 OK\r\nX: ", ""},
		"document":           {"HTTP/1.1 200 OK\r\n" + long, ""},
		"document, slow":     {"HTTP/1.1 200 OK\r\n" + long, "x"},
		"page":               {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3000\r\n\r\n<", ""},
		"redirect":           {"HTTP/1.1 301 Moved\r\nLocation: /x\r\n" + long, ""},
		"confirmation":       {"HTTP/1.1 304 Not Modified\r\n" + long, ""},
		"refusal":            {"HTTP/1.1 403 Forbidden\r\n" + long, ""},
		"failure":            {"HTTP/1.1 500 Oops\r\n" + long, ""},
		"extensions":         {chunked, "1;" + strings.Repeat("x", 3000) + "\r\n \r\n"},
		"trailers":           {chunked + "2\r\n[]\r\n0\r\n", field},
		"half a trailer":     {chunked + "2\r\n[]\r\n0\r\nX: ", ""},
		"no HTTP":            {"", "[]"},
		"no HTTP, at length": {strings.Repeat(secret, 1000) + "\r\n\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cms := rawServer(t, c.begin, c.more)
			var log testkit.Buffer
			client := newClient(t, "http://"+cms, func(o *options) {
				o.Timeout, o.Shared.Secrets = timeout, []string{secret}
				o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			})
			done := make(chan error, 1)
			go func() {
				_, err := client.Fetch(context.Background(), shape.Rules, Held{Validators: Validators{ETag: `"held"`}})
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil && name != "confirmation" || strings.HasPrefix(name, "document") && !errors.Is(err, ErrTimeout) {
					t.Error(err)
				}
				for line := range strings.Lines(fmt.Sprintln(err) + log.String()) {
					if len(line) > 2000 || strings.Contains(line, `"1`) {
						t.Errorf("%d bytes: %.1100s", len(line), line)
					}
				}
			case <-time.After(10 * timeout):
				t.Fatal("the fetch goes on after its timeout")
			}
		})
	}
}

// rawServer reads a little of each connection, writes begin, and then more without end, a piece
// every millisecond; without more it stays silent. It returns its address.
func rawServer(t *testing.T, begin, more string) string {
	t.Helper()
	return testkit.Accept(t, func(conn net.Conn) {
		_, err := conn.Read(make([]byte, 4096))
		if err == nil {
			_, err = io.WriteString(conn, begin)
		}
		for err == nil {
			<-time.After(time.Millisecond)
			_, err = io.WriteString(conn, more)
		}
	})
}

// bannerOf is the inside of a banner with all fields.
func bannerOf(id int, title string) string {
	return fmt.Sprintf(`"id":%d,"title_en":%q,"title_nl":"","title_fr":"","button_text_en":"","button_text_nl":"","button_text_fr":"",`+
		`"redirect_link_en":"/en","redirect_link_nl":"","redirect_link_fr":"","language_en":true,"language_nl":false,"language_fr":false,`+
		`"created_at":"2024-03-01T10:00:00.000000Z","updated_at":"2024-03-01T10:00:00.000000Z"`, id, title)
}

// TestMemoryTakenWhileTheCMSIsAwaitedIsNotThatOfPrograms has something else take memory meanwhile.
func TestMemoryTakenWhileTheCMSIsAwaitedIsNotThatOfPrograms(t *testing.T) {
	var taken []byte
	client := newClient(t, "http://cms", func(o *options) {
		o.Preset = "custom"
		o.Transport = jsonCMS(func(*http.Request) (int, string) {
			taken = make([]byte, 100<<20)
			<-time.After(50 * time.Millisecond)
			return http.StatusOK, "[{" + bannerOf(1, "a") + "}]"
		})
		o.Resources = bannersAlone(source.Part{Path: "banners", Items: "map(.)"})
	})
	mustFetch(t, client, shape.Banners)
	runtime.KeepAlive(taken)
}
