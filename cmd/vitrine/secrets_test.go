package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// The credentials, each with a mark of its own, and characters that URLs, JSON and headers write in
// other ways.
var marked = map[string]string{
	"authorization":  "Token mark-one/+=&\"x",
	"redis password": "mark-two:@/x",
	"hook secret":    "mark-three&<x>",
	"admin token":    "mark-four%25\"x",
	"userinfo":       "mark-five-password",
}

// leaks lists the credentials that stand in text, as they are or in one of the ways in which they
// may have been written.
func leaks(text string) []string {
	var found []string
	lower := strings.ToLower(text)
	for name, secret := range marked {
		bare := strings.TrimPrefix(secret, "Token ")
		for _, form := range []string{
			bare, url.QueryEscape(bare), url.PathEscape(bare), strings.ReplaceAll(bare, `"`, `\"`),
			base64.StdEncoding.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(bare)),
			hex.EncodeToString([]byte(bare)), bare[:len("mark-one")],
		} {
			if strings.Contains(lower, strings.ToLower(form)) {
				found = append(found, name)
				break
			}
		}
	}
	return found
}

// Every failure is run with credentials that can be recognized, and everything that comes out
// anywhere is searched for them.
func TestNoSecretComesOutWhateverFails(t *testing.T) {
	t.Parallel()
	if got := leaks("x " + url.QueryEscape(marked["redis password"])); len(got) != 1 {
		t.Fatalf("the search finds %v", got)
	}
	cms, server := upstreamtest.New(t), redistest.Start(t)
	address := func() string { return fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t)) }
	public, operator := address(), address()
	environ := []string{
		"VITRINE_LISTEN=" + public, "VITRINE_ADMIN_LISTEN=" + operator,
		"VITRINE_UPSTREAM_URL=" + cms.URL, "VITRINE_UPSTREAM_RETRIES=1", "VITRINE_UPSTREAM_TIMEOUT=300ms",
		"VITRINE_REDIS_URL=redis://app:" + url.QueryEscape(marked["redis password"]) + "@" + server.Addr, // a user that it does not have
		"VITRINE_HOOK_SECRET=" + marked["hook secret"], "VITRINE_HOOK_MATCH_BANNERS=.model == 1",
		"VITRINE_TTL=10ms", "VITRINE_LOG_LEVEL=debug", "VITRINE_LOG_ACCESS=on",
	}
	file := filepath.Join(t.TempDir(), "vitrine.yaml")
	write := func(format, authorization, token string) {
		testkit.Must(t, os.WriteFile(file, fmt.Appendf(nil, "{log: {format: %s}, upstream: {authorization: %q}, admin: {token: %q}}",
			format, authorization, token), 0o600))
	}
	write("text", marked["authorization"], marked["admin token"])

	ctx, cancel := context.WithCancel(t.Context())
	var out testkit.Buffer
	hangups := make(chan os.Signal, 1)
	command := func(args ...string) int {
		return run(ctx, append(args, "--config", file), program{
			environ: environ, stdout: &out, stderr: &out, hangups: func() <-chan os.Signal { return hangups },
		})
	}
	ended := make(chan int, 1)
	go func() { ended <- command("serve") }()
	appears := func(text string) {
		t.Helper()
		testkit.Eventually(t, text, func() bool { return strings.Contains(out.String(), text) })
	}
	appears("msg=\"admin address\"")

	ask := func(method, target, authorization, body string) {
		request, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
		testkit.Must(t, err)
		if authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		testkit.Must(t, err)
		defer response.Body.Close()
		_ = response.Header.Write(&out)
		_, _ = io.Copy(&out, response.Body)
	}
	askAll := func() {
		for _, r := range shape.Resources() {
			ask("GET", "http://"+public+r.Route(), "", "")
			ask("GET", "http://"+operator+"/documents/"+string(r), "Bearer "+marked["admin token"], "")
		}
		for _, path := range []string{"/", "/api/status", "/metrics", "/openapi.json", "/readyz", "/livez", "/nothing"} {
			for _, authorization := range []string{"Bearer " + marked["admin token"], "", "Bearer wrong"} {
				ask("GET", "http://"+operator+path, authorization, "")
			}
		}
		for _, authorization := range []string{"", "Bearer wrong", "Bearer " + marked["hook secret"]} {
			ask("POST", "http://"+operator+"/hooks/content", authorization, `{"model":`)
			ask("POST", "http://"+operator+"/hooks/content", authorization, `{"model":1}`)
		}
	}

	// A CMS that gives back what it was told, as a page of an error may.
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://elsewhere.example/?t="+url.QueryEscape(r.Header.Get("Authorization")))
		w.Header().Set("WWW-Authenticate", r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusFound)
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	})
	for _, failure := range []struct {
		name string
		fail func()
	}{
		{"well", func() {}},
		{"401", func() { cms.Fail(401) }},
		{"refused", func() { cms.Recover(); cms.Set(shape.Banners, `[{"id":"x"}]`) }},
		{"an echo", func() { cms.Recover(); cms.Handle(shape.Rules, echo) }},
		{"away", cms.Down},
		{"no Redis", server.Kill},
	} {
		failure.fail()
		askAll()
		command("check")
		command("status")
		if strings.HasSuffix(failure.name, "Redis") {
			command("purge")
		}
		if failure.name == "well" { // the rest of the log is JSON
			command("purge")
			write("json", marked["authorization"], marked["admin token"])
			hangups <- syscall.SIGHUP
			appears(`"msg":"configuration changed"`)
		}
		if found := leaks(out.String()); len(found) > 0 {
			t.Fatalf("%s: %v came out", failure.name, found)
		}
	}
	for _, line := range [][]string{{"config"}, {"check", "--json"}, {"status", "--json"}} {
		command(line...)
	}
	write("json", marked["admin token"], marked["hook secret"])
	hangups <- syscall.SIGHUP
	appears(`"msg":"configuration not reloaded"`) // the next service could not answer
	cancel()
	if code := testkit.Receive(t, ended); code != exitDone {
		t.Errorf("serve exits %d", code)
	}
	// What is wrong with a setting is told without it.
	safe := []string{"VITRINE_ADMIN_LISTEN=", "VITRINE_LISTEN=127.0.0.1:0", "VITRINE_REDIS_URL=embedded:" + address()} // nobody else's
	for _, wrong := range []struct{ environ, commands string }{                                                        // those that look at it
		{"VITRINE_UPSTREAM_URL=http://user:" + marked["userinfo"] + "@cms.example", "config serve"},
		{"VITRINE_UPSTREAM_URL=http://user:" + marked["userinfo"] + "@cms.example:port", "check serve"},
		{"VITRINE_REDIS_URL=redis://:" + marked["userinfo"] + "@redis?nonsense=1", "check purge serve"},
		{
			"VITRINE_REDIS_URL=http://:" + marked["userinfo"] + "@redis|VITRINE_UPSTREAM_AUTHORIZATION=" + marked["authorization"] + "\n|" +
				"VITRINE_ADMIN_TOKEN=mark-four\tx|VITRINE_HOOK_SECRET=mark-three\tx",
			"config check purge serve status",
		},
	} {
		for name := range strings.SplitSeq(wrong.commands, " ") {
			run(t.Context(), []string{name}, program{environ: append(safe, strings.Split(wrong.environ, "|")...), stdout: &out, stderr: &out})
		}
	}
	if found := leaks(out.String()); len(found) > 0 {
		t.Fatalf("%v came out", found)
	}
	if n := strings.Count(out.String(), "\n"); n < 500 {
		t.Errorf("only %d lines came out: little was run", n)
	}
}

func TestALongLineOfTheServicesEnvironmentHidesNoneAfterIt(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	got := variables([]byte("VITRINE_A=" + long + "\n# " + long + "\n VITRINE_B = 'c' \n\nVITRINE_D"))
	if want := []string{"VITRINE_A=" + long, "VITRINE_B=c"}; !slices.Equal(got, want) {
		t.Errorf("%.80q", got)
	}
}
