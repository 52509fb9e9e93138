package operator

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/verdict"
	"vitrine/upstream/shape"
)

// newServer makes a server that knows nothing but what o says.
func newServer(t *testing.T, o Options) *Server {
	t.Helper()
	if o.Meter == nil {
		o.Meter = metrics.New("1.2.3", func() verdict.Snapshot { return verdict.Snapshot{} })
	}
	if o.Document == nil {
		o.Document = func(shape.Resource) []byte { return nil }
	}
	return New(o)
}

// start serves a server with these options until the test ends.
func start(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	s := newServer(t, o)
	return s, serve(t, s)
}

// serve serves on a free port until the test ends, and returns the base URL.
func serve(t *testing.T, s *Server) string {
	t.Helper()
	return serveAt(t, NewAddress(s, slog.New(slog.DiscardHandler)), MaxConnections)
}

func serveAt(t *testing.T, address *Address, most int) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	served := make(chan error, 1)
	go func() { served <- address.Serve(ln, most) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		testkit.Check(t, address.Shutdown(ctx))
		testkit.Check(t, testkit.Receive(t, served))
	})
	return "http://" + ln.Addr().String()
}

// ask returns the status and the body, which has to be JSON.
func ask(t *testing.T, method, url string) (int, map[string]any) {
	t.Helper()
	resp := request(t, method, url, "")
	var body map[string]any
	if err := json.Unmarshal([]byte(resp.body), &body); err != nil && method != http.MethodHead || resp.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: %v, %v", url, resp.header, err)
	}
	return resp.status, body
}

func TestReadyWhileEveryCheckPassesAndNotDraining(t *testing.T) {
	fail, asked := make(chan error, 1), 0
	s, url := start(t, Options{Checks: map[shape.Resource]func(context.Context) error{
		"rules": func(context.Context) error { return nil },
		"banners": func(context.Context) error {
			asked++
			select {
			case err := <-fail:
				return err
			default:
				return nil
			}
		},
	}})
	if code, body := ask(t, "GET", url+"/readyz"); code != 200 || body["ready"] != true {
		t.Errorf("%d %v", code, body)
	}
	fail <- errors.New("no copy")
	code, body := ask(t, "GET", url+"/readyz")
	checks, _ := body["checks"].(map[string]any)
	if code != 503 || body["ready"] != false || checks["banners"] != "no copy" || checks["rules"] != "ok" {
		t.Errorf("%d %v", code, body)
	}
	s.SetDraining()
	if code, body := ask(t, "GET", url+"/readyz"); code != 503 || body["ready"] != false || body["draining"] != true || asked != 2 {
		t.Errorf("draining: %d %v, %d checks", code, body, asked)
	}
	if code, body := ask(t, "GET", url+"/livez"); code != 200 || body["alive"] != true {
		t.Errorf("a process that drains is alive: %d %v", code, body)
	}
}

func TestReadinessIsAnsweredInBoundedTime(t *testing.T) {
	_, url := start(t, Options{ReadyTimeout: time.Millisecond, Checks: map[shape.Resource]func(context.Context) error{
		"rules": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	}})
	if code, body := ask(t, "GET", url+"/readyz"); code != 503 {
		t.Errorf("%d %v", code, body)
	}
}

func TestErrorsAreJSON(t *testing.T) {
	_, url := start(t, Options{})
	for _, tc := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/nope", 404}, {"GET", "/documents/rules", 404}, {"POST", "/nope", 404}, {"GET", "/livez/", 404},
		{"POST", "/livez", 405}, {"DELETE", "/api/status", 405}, {"HEAD", "/readyz", 200},
	} {
		code, body := ask(t, tc.method, url+tc.path)
		if code != tc.want || code >= 400 && !strings.HasSuffix(body["detail"].(string), ".") {
			t.Errorf("%s %s: %d %v, want %d", tc.method, tc.path, code, body, tc.want)
		}
	}
}

// TestConnectionsThatSendNothingEnd has clients take all connections, and hold them in one step of a
// request.
func TestConnectionsThatSendNothingEnd(t *testing.T) {
	for name, sent := range map[string]string{
		"silent":        "",
		"idle":          "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"half a header": "GET /livez HTTP/1.1\r\nHost: local",
		"half a body":   "POST /hooks/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, Options{Hook: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })})
			at := NewAddress(s, slog.New(slog.DiscardHandler))
			if at.http.ReadHeaderTimeout > 5*time.Second || at.http.ReadTimeout > 10*time.Second || at.http.IdleTimeout > 10*time.Second {
				t.Errorf("they last for too long: %+v", at.http)
			}
			at.http.ReadHeaderTimeout, at.http.ReadTimeout, at.http.IdleTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
			address := strings.TrimPrefix(serveAt(t, at, 4), "http://")
			for range 8 {
				testkit.Write(t, testkit.Dial(t, "tcp", address), sent)
			}
			client := http.Client{Timeout: testkit.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Get("http://" + address + "/livez")
			testkit.Must(t, err)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Error(resp.Status)
			}
		})
	}
}

func TestARequestUnderWayIsAnsweredByTheServerThatItBeganWith(t *testing.T) {
	release, begun := make(chan struct{}), make(chan struct{})
	before := newServer(t, Options{ReadyTimeout: time.Minute, Checks: map[shape.Resource]func(context.Context) error{
		"rules": func(context.Context) error { close(begun); <-release; return nil },
	}})
	at := NewAddress(before, slog.New(slog.DiscardHandler))
	url := serveAt(t, at, MaxConnections)
	got := make(chan int, 1)
	go func() {
		code, _ := ask(t, "GET", url+"/readyz")
		got <- code
	}()
	testkit.Receive(t, begun)
	at.Swap(newServer(t, Options{Checks: map[shape.Resource]func(context.Context) error{"rules": func(context.Context) error { return errors.New("next") }}}))
	if code, _ := ask(t, "GET", url+"/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("a later request: %d", code)
	}
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := before.Drain(soon); err == nil {
		t.Error("drained with a request under way")
	}
	close(release)
	if code := testkit.Receive(t, got); code != http.StatusOK {
		t.Errorf("the request under way: %d", code)
	}
	testkit.Must(t, before.Drain(t.Context()))
}

// TestEveryFieldOfTheStatusIsDocumented walks the types of /api/status and looks each name up in
// docs/status.md.
func TestEveryFieldOfTheStatusIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/status.md")
	testkit.Must(t, err)
	names := map[string]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(typ.Elem())
		case reflect.Struct:
			if typ == reflect.TypeFor[time.Time]() {
				return
			}
			for i := range typ.NumField() {
				if !typ.Field(i).IsExported() {
					continue
				}
				name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
				if name != "" && name != "-" {
					names[name] = true
				}
				walk(typ.Field(i).Type)
			}
		}
	}
	walk(reflect.TypeFor[Status]())
	if len(names) < 60 {
		t.Errorf("only %d names were found", len(names))
	}
	for name := range names {
		if !strings.Contains(string(doc), "`"+name+"`") && !strings.Contains(string(doc), "### "+name+"\n") {
			t.Errorf("docs/status.md does not name %s", name)
		}
	}
}

func TestProfilesAreThereOnlyWhenSwitchedOnAndWithTheToken(t *testing.T) {
	for profiles, want := range map[bool]int{false: 404, true: 200} {
		_, url := start(t, Options{Profiles: profiles, Token: "open-sesame"})
		const path = "/debug/pprof/goroutine?debug=1"
		if resp := askAs(t, url+path, "Bearer another"); resp.status != 401 {
			t.Errorf("on %v, without the token: %d", profiles, resp.status)
		}
		if resp := askAs(t, url+path, "Bearer open-sesame"); resp.status != want || profiles != strings.Contains(resp.body, "goroutine profile") {
			t.Errorf("on %v: %d", profiles, resp.status)
		}
	}
}
