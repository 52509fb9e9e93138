package main

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/config"
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
	redis := "redis://app:" + url.QueryEscape(marked["redis password"]) + "@" + server.Addr // a user that it does not have
	environ := []string{
		"VITRINE_LISTEN=127.0.0.1:0", "VITRINE_ADMIN_LISTEN=127.0.0.1:0",
		"VITRINE_UPSTREAM_URL=" + cms.URL, "VITRINE_UPSTREAM_RETRIES=1", "VITRINE_UPSTREAM_TIMEOUT=300ms",
		"VITRINE_UPSTREAM_AUTHORIZATION=" + marked["authorization"],
		"VITRINE_REDIS_URL=" + redis,
		"VITRINE_HOOK_SECRET=" + marked["hook secret"], "VITRINE_ADMIN_TOKEN=" + marked["admin token"],
		"VITRINE_HOOK_MATCH_BANNERS=.model == 1", "VITRINE_TTL=10ms", "VITRINE_LOG_LEVEL=debug", "VITRINE_LOG_FORMAT=json", "VITRINE_LOG_ACCESS=on",
	}
	cfg, err := config.Load(config.Sources{Environ: environ})
	testkit.Must(t, err)
	var out testkit.Buffer
	ctx := t.Context()
	s := startWith(t, cfg, &out)
	_, _ = out.Write([]byte(s.startup()))

	command := func(args ...string) {
		run(ctx, args, program{environ: environ, stdout: &out, stderr: &out})
	}
	operator := "http://" + s.operator.Addr().String()
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
			ask("GET", "http://"+s.public.Addr().String()+r.Route(), "", "")
			ask("GET", operator+"/documents/"+string(r), "Bearer "+marked["admin token"], "")
		}
		for _, path := range []string{"/", "/api/status", "/metrics", "/openapi.json", "/readyz", "/livez", "/nothing"} {
			ask("GET", operator+path, "Bearer "+marked["admin token"], "")
			ask("GET", operator+path, "", "")
			ask("GET", operator+path, "Bearer wrong", "")
		}
		for _, authorization := range []string{"", "Bearer wrong", "Bearer " + marked["hook secret"]} {
			ask("POST", operator+"/hooks/content", authorization, `{"model":`)
			ask("POST", operator+"/hooks/content", authorization, `{"model":1}`)
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
		for _, line := range [][]string{{"check"}, {"purge"}, {"status", "--json", "--url", operator}} {
			command(line...)
		}
		if found := leaks(out.String()); len(found) > 0 {
			t.Fatalf("%s: %v came out", failure.name, found)
		}
	}
	for _, line := range [][]string{{"config"}, {"check", "--json"}, {"status", "--url", operator}} {
		command(line...)
	}
	next := cfg
	next.Admin.Token, next.Upstream.Authorization = config.NewSecret(marked["hook secret"]), config.NewSecret(marked["admin token"])
	if err := s.reload(next); err == nil {
		t.Error("a service that cannot answer took over")
	}
	if err := s.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	// What is wrong with a setting is told without it.
	for _, wrong := range []string{
		"VITRINE_UPSTREAM_URL=http://user:" + marked["userinfo"] + "@cms.example",
		"VITRINE_UPSTREAM_URL=http://user:" + marked["userinfo"] + "@cms.example:port",
		"VITRINE_REDIS_URL=http://:" + marked["userinfo"] + "@redis",
		"VITRINE_REDIS_URL=redis://:" + marked["userinfo"] + "@redis?nonsense=1",
		"VITRINE_UPSTREAM_AUTHORIZATION=" + marked["authorization"] + "\n",
		"VITRINE_ADMIN_TOKEN=mark-four x", "VITRINE_HOOK_SECRET=mark-three x",
	} {
		for _, line := range [][]string{{"config"}, {"check"}, {"purge"}, {"serve"}, {"status"}} {
			run(t.Context(), line, program{environ: []string{"VITRINE_ADMIN_LISTEN=", wrong}, stdout: &out, stderr: &out})
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
