package operator

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
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
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
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
