package operator

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/proxy/operator/metrics"
	"vitrine/upstream/shape"
)

// newServer makes a server that knows nothing but what o says.
func newServer(t *testing.T, o Options) *Server {
	t.Helper()
	if o.Meter == nil {
		o.Meter = metrics.New("1.2.3", func() metrics.State { return metrics.State{} })
	}
	if o.Status == nil {
		o.Status = func() Status { return Status{} }
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
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		testkit.Check(t, s.Shutdown(ctx))
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
	s, url := start(t, Options{Checks: map[string]func(context.Context) error{
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
	_, url := start(t, Options{ReadyTimeout: time.Millisecond, Checks: map[string]func(context.Context) error{
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

// TestHealthChecksAreAnsweredWhateverElseIsOpen has strangers take all connections and more, and
// hold them in one step of a request.
func TestHealthChecksAreAnsweredWhateverElseIsOpen(t *testing.T) {
	const many = 8
	for name, sent := range map[string]string{
		"silent":              "",
		"idle":                "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"half a header":       "GET /livez HTTP/1.1\r\nHost: local",
		"half a body":         "POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
		"half a delivery":     "POST /hooks/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
		"an answer in making": "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"an unread answer":    strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 100),
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, Options{OpenAPI: make([]byte, 100<<10), ReadyTimeout: time.Minute, Checks: map[string]func(context.Context) error{
				"rules": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			}, Hook: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })})
			s.connections.most = many
			url := serve(t, s)
			for range 2 * many {
				conn := testkit.Dial(t, "tcp", strings.TrimPrefix(url, "http://"))
				testkit.Write(t, conn, sent)
			}
			client := http.Client{Timeout: testkit.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Get(url + "/livez")
			testkit.Must(t, err)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Error(resp.Status)
			}
			testkit.Eventually(t, "the others have given way", func() bool { open, _ := placed(s); return open <= many })
		})
	}
}

// TestAConnectionThatGivesWayTakesNoPlaceAgain has its request begin before it is closed.
func TestAConnectionThatGivesWayTakesNoPlaceAgain(t *testing.T) {
	cs := newConnections()
	cs.most = 1
	var conns [2]*pacedConn
	for i := range conns {
		conns[i] = &pacedConn{connections: cs}
		conns[i].open, conns[i].end = context.WithCancel(t.Context())
	}
	first, second := conns[0], conns[1]
	if extra := cs.note(first, http.StateNew); extra != nil {
		t.Fatal("the only one gave way")
	}
	if extra := cs.note(second, http.StateNew); extra != first {
		t.Fatal("the first one stayed")
	}
	if extra := cs.note(first, http.StateActive); extra != nil {
		t.Error("the second one gave way to it")
	}
}

// placed is how many connections are open, and how many of them have a request under way.
func placed(s *Server) (open, busy int) {
	s.connections.mu.Lock()
	defer s.connections.mu.Unlock()
	for _, c := range s.connections.placed {
		if c.busy {
			busy++
		}
	}
	return len(s.connections.placed), busy
}

func TestARequestUnderWayOutlivesConnectionsThatWait(t *testing.T) {
	release := make(chan struct{})
	s := newServer(t, Options{ReadyTimeout: time.Minute, Checks: map[string]func(context.Context) error{
		"rules": func(context.Context) error { <-release; return nil },
	}})
	s.connections.most = 8
	address := strings.TrimPrefix(serve(t, s), "http://")
	first := testkit.Dial(t, "tcp", address)
	testkit.Write(t, first, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	testkit.Eventually(t, "it is under way", func() bool { _, busy := placed(s); return busy == 1 })
	for range 40 {
		testkit.Dial(t, "tcp", address)
	}
	testkit.Eventually(t, "the others have given way", func() bool { open, _ := placed(s); return open <= 8 })
	close(release)
	response, err := http.ReadResponse(bufio.NewReader(first), nil)
	testkit.Must(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Error(response.Status)
	}
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
				name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
				if name != "" {
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
