package operator

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// asked is an answer, read whole.
type asked struct {
	status int
	header http.Header
	body   string
}

// askAs asks with the given Authorization header.
func askAs(t *testing.T, url, authorization string) asked {
	t.Helper()
	return request(t, http.MethodGet, url, authorization)
}

func request(t *testing.T, method, url, authorization string) asked {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	testkit.Must(t, err)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	testkit.Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	return asked{resp.StatusCode, resp.Header, string(body)}
}

func TestATokenIsAskedForByEverythingButTheHealthChecks(t *testing.T) {
	_, url := start(t, Options{Token: "open-sesame"})
	for _, path := range []string{"/livez", "/readyz"} {
		if resp := askAs(t, url+path, ""); resp.status != 200 {
			t.Errorf("%s: %d", path, resp.status)
		}
	}
	for _, path := range []string{"/", "/api/status", "/metrics", "/openapi.json", "/nothing", "/livez/", "//livez", "/x/../livez"} {
		resp := askAs(t, url+path, "")
		if resp.status != 401 || len(resp.header.Values("WWW-Authenticate")) != 2 || strings.Contains(resp.body, "sesame") {
			t.Errorf("%s: %+v", path, resp)
		}
	}
	for authorization, want := range map[string]int{
		"Bearer open-sesame":                 200,
		"bearer  open-sesame":                200,
		"Basic b3BlcmF0b3I6b3Blbi1zZXNhbWU=": 200, // operator:open-sesame
		"Basic Om9wZW4tc2VzYW1l":             200, // :open-sesame
		"Bearer open-sesam":                  401,
		"Bearer open-sesame2":                401,
		"Bearer ":                            401,
		"Bearer":                             401,
		"Basic b3Blbi1zZXNhbWU6":             401, // open-sesame:
		"open-sesame":                        401,
	} {
		if resp := askAs(t, url+"/api/status", authorization); resp.status != want {
			t.Errorf("%q: %d, want %d", authorization, resp.status, want)
		}
	}
}

// exchange sends one request as it stands, and returns the status line's code.
func exchange(t *testing.T, url, request string) string {
	t.Helper()
	conn := testkit.Dial(t, "tcp", strings.TrimPrefix(url, "http://"))
	defer conn.Close()
	testkit.Write(t, conn, strings.ReplaceAll(request, "\n", "\r\n")+"\r\n\r\n")
	line, err := bufio.NewReader(conn).ReadString('\n')
	testkit.Must(t, err)
	return strings.Fields(line)[1]
}

// A page in the operator's browser can point a name of its own at this address, and then read
// everything here as if it were its own.
func TestANameThatWasReboundToThisAddressIsRefused(t *testing.T) {
	log := new(testkit.Buffer)
	_, url := start(t, Options{Listen: "vitrine.internal:9090", Hosts: []string{"Monitoring.example", "192.0.2.7"}, Logger: slog.New(slog.NewTextHandler(log, nil))})
	for host, want := range map[string]string{
		"localhost": "200", "localhost:9090": "200", "LOCALHOST.": "200", "127.0.0.1": "200", "127.8.9.1:1": "200", "[::1]:9090": "200",
		"vitrine.internal:9090": "200", "VITRINE.internal": "200", "monitoring.example": "200", "192.0.2.7:9090": "200",
		"evil.example": "421", "evil.example:9090": "421", "localhost.evil.example": "421", "127.0.0.1.evil.example": "421",
		"192.0.2.8": "421", "10.0.0.1:9090": "421", "[2001:db8::1]": "421", "0.0.0.0:9090": "421", "vitrine.internal.evil.example": "421",
	} {
		for _, path := range []string{"/", "/api/status", "/livez", "/metrics", "/hooks/content", "/nowhere"} {
			got := exchange(t, url, "GET "+path+" HTTP/1.1\nHost: "+host)
			if refused := got == "421"; refused != (want == "421") {
				t.Errorf("Host %s, %s: %s", host, path, got)
			}
		}
	}
	if !strings.Contains(log.String(), "VITRINE_ADMIN_HOSTS") || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), " host=") {
		t.Errorf("the log of a minute: %s", log.String())
	}
	if got := exchange(t, url, "GET http://evil.example/livez HTTP/1.1\nHost: localhost"); got != "421" {
		t.Errorf("a target with another host: %s", got)
	}
	if got := exchange(t, url, "GET /livez HTTP/1.0"); got != "200" {
		t.Errorf("a health check without Host, which no browser sends: %s", got)
	}
}

func TestAConnectionsOwnAddressIsAHost(t *testing.T) {
	handler := guardHosts(Options{Logger: slog.New(slog.DiscardHandler)}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 9090})
	for host, want := range map[string]int{"192.0.2.1:9090": 200, "[::ffff:192.0.2.1]": 200, "192.0.2.9": 421} {
		r, w := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), httptest.NewRecorder()
		r.Host = host
		if handler.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d, want %d", host, w.Code, want)
		}
	}
}

// No request changes anything here without a secret, wherever the address is.
func TestNothingChangesWithoutASecret(t *testing.T) {
	_, url := start(t, Options{Profiles: true})
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "BREW"} {
		for _, path := range []string{"/", "/api/status", "/livez", "/readyz", "/metrics", "/openapi.json", "/documents/rules", "/hooks/content", "/debug/pprof/", "/debug/pprof/profile"} {
			if got := exchange(t, url, method+" "+path+" HTTP/1.1\nHost: localhost\nContent-Length: 0"); got != "405" && got != "404" {
				t.Errorf("%s %s: %s", method, path, got)
			}
		}
	}
}

// unread is an answer whose client reads it late.
type unread struct {
	*httptest.ResponseRecorder
	read chan struct{}
}

func (u unread) Write(p []byte) (int, error) {
	<-u.read
	return u.ResponseRecorder.Write(p)
}

func TestFewDocumentsWaitForTheirClientsAndNobodyWaitsForThese(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		s := newServer(t, Options{Document: func(shape.Resource) []byte { made.Add(1); return []byte("[]") }})
		ask := func(ctx context.Context, w http.ResponseWriter, path string) {
			s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil))
		}
		read := make(chan struct{})
		for range maxDocuments {
			go ask(t.Context(), unread{httptest.NewRecorder(), read}, "/documents/banners")
		}
		synctest.Wait()
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if ask(soon, httptest.NewRecorder(), "/documents/rules"); made.Load() != maxDocuments {
			t.Errorf("%d are made", made.Load())
		}
		w := httptest.NewRecorder()
		if ask(t.Context(), w, "/livez"); w.Code != http.StatusOK {
			t.Errorf("a health check gets %d", w.Code)
		}
		close(read)
		if ask(t.Context(), httptest.NewRecorder(), "/documents/rules"); made.Load() != maxDocuments+1 {
			t.Error("a document waits for answers that were read")
		}
	})
}
