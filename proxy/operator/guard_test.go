package operator

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"vitrine/cmd/testkit"
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
	_, url := start(t, Options{Listen: "vitrine.internal:9090", Hosts: []string{"Monitoring.example", "192.0.2.7"}})
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
	if got := exchange(t, url, "GET http://evil.example/livez HTTP/1.1\nHost: localhost"); got != "421" {
		t.Errorf("a target with another host: %s", got)
	}
	if got := exchange(t, url, "GET /livez HTTP/1.0"); got != "200" {
		t.Errorf("a health check without Host, which no browser sends: %s", got)
	}
}

func TestAConnectionsOwnAddressIsAHost(t *testing.T) {
	addresses, err := net.InterfaceAddrs()
	testkit.Must(t, err)
	handler := guardHosts(Options{}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, address := range addresses {
		ip, ok := address.(*net.IPNet)
		if !ok || ip.IP.To4() == nil || ip.IP.IsLoopback() {
			continue
		}
		ln, err := net.Listen("tcp", net.JoinHostPort(ip.IP.String(), "0"))
		if err != nil {
			t.Logf("cannot listen on %s, this machine's own address: %v", ip.IP, err)
			continue
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Second}
		served := make(chan error, 1)
		go func() { served <- server.Serve(ln) }()
		for host, want := range map[string]string{ln.Addr().String(): "200", "192.0.2.9": "421"} {
			if got := exchange(t, ln.Addr().String(), "GET / HTTP/1.1\nHost: "+host); got != want {
				t.Errorf("%s: %s, want %s", host, got, want)
			}
		}
		testkit.Check(t, server.Close())
		if err := testkit.Receive(t, served); err != nil {
			t.Log(err)
		}
		return
	}
	t.Skip("this machine has no address but loopback to listen on: ip address add 192.0.2.1/32 dev lo")
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

// TestTheOperatorsAddressTakesAShareOfTheTime has twenty clients request an answer that takes 10 ms
// to make, for ten seconds.
func TestTheOperatorsAddressTakesAShareOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		h := takeTurns(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(10 * time.Millisecond)
			made.Add(1)
			w.Header().Set("X", "y")
			w.WriteHeader(http.StatusTeapot)
		}))
		began := time.Now()
		var clients sync.WaitGroup
		for range 20 {
			clients.Go(func() {
				for time.Since(began) < 10*time.Second {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
					if w.Code != http.StatusTeapot || w.Header().Get("X") != "y" {
						t.Errorf("%d %v", w.Code, w.Header())
					}
				}
			})
		}
		clients.Wait()
		worked := time.Duration(made.Load()) * 10 * time.Millisecond
		if most := time.Since(began)/4 + time.Second + 10*time.Millisecond; worked < 2*time.Second || worked > most {
			t.Errorf("answers were made for %v of %v, want at most %v", worked, time.Since(began), most)
		}
	})
}

// TestAnAnswerThatIsNeverMadeEndsWithAnError has one request keep the turn, and others wait for it.
func TestAnAnswerThatIsNeverMadeEndsWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		var made atomic.Int64
		h := takeTurns(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			made.Add(1)
			<-end
		}))
		ctx, leave := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		for _, ctx := range []context.Context{t.Context(), t.Context(), ctx} {
			clients.Go(func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
				if w.Code != http.StatusServiceUnavailable || ctx.Err() == nil && w.Body.Len() == 0 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
			synctest.Wait()
		}
		leave()
		clients.Wait()
		close(end)
		synctest.Wait()
		if n := made.Load(); n != 1 {
			t.Errorf("%d answers were made, want 1: nobody waits for another", n)
		}
	})
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
		h := takeTurns(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			made.Add(1)
			_, _ = w.Write([]byte("a document"))
		}))
		ask := func(w http.ResponseWriter, path string) {
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		}
		read, late := make(chan struct{}), httptest.NewRecorder()
		for range maxDocuments {
			go ask(unread{httptest.NewRecorder(), read}, "/documents/banners")
		}
		synctest.Wait()
		if ask(late, "/documents/rules"); late.Code != http.StatusServiceUnavailable || made.Load() != maxDocuments {
			t.Errorf("one more gets %d, and %d are made", late.Code, made.Load())
		}
		if ask(httptest.NewRecorder(), "/api/status"); made.Load() != maxDocuments+1 {
			t.Error("the status waits")
		}
		close(read)
		if ask(httptest.NewRecorder(), "/documents/rules"); made.Load() != maxDocuments+2 {
			t.Error("a document waits for answers that were read")
		}
	})
}

// readable is a connection that always has something to read.
type readable struct{ net.Conn }

func (readable) Read(p []byte) (int, error) { return len(p), nil }
func (readable) Close() error               { return nil }

// TestReadsArePaced reads from many connections for ten seconds, a few bytes each time or many.
func TestReadsArePaced(t *testing.T) {
	for size, each := range map[int]int{1: 1, 3 * readBytes: 4} {
		synctest.Test(t, func(t *testing.T) {
			cs := newConnections()
			began, reads := time.Now(), atomic.Int64{}
			var readers sync.WaitGroup
			for range 20 {
				c := &pacedConn{Conn: readable{}, connections: cs}
				c.open, c.end = context.WithCancel(t.Context())
				defer c.Close()
				readers.Go(func() {
					for p := make([]byte, size); time.Since(began) < 10*time.Second; {
						_, _ = c.Read(p)
						if n := reads.Add(1); n == int64(readBurst/each) && time.Since(began) > 0 {
							t.Errorf("the first %d reads of %d bytes waited", n, size)
						}
					}
				})
			}
			readers.Wait()
			if n, most := reads.Load(), (readBurst+int64(readRate)*10)/int64(each)+20; n < most*9/10 || n > most {
				t.Errorf("%d reads of %d bytes, want at most %d", n, size, most)
			}
		})
	}
}
