// Package pocketbase has permissions and content change in a real PocketBase behind two replicas: what
// is lost by accident is held back, told, compared and had back. The PocketBase is ../../pocketbase, a
// module of its own, which is compiled for it.
package pocketbase

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

func TestMain(m *testing.M) { harness.Main(m) }

// hold is guard.hold.
const hold = 3 * time.Second

// gallery is a PocketBase, a Redis and two replicas.
type gallery struct {
	*testing.T
	cms      string // its URL
	token    string
	redis    *redistest.Server
	environ  []string
	replicas []*harness.Served
}

func open(t *testing.T) *gallery {
	program := filepath.Join(t.TempDir(), "pocketbase")
	build := exec.CommandContext(t.Context(), "go", "-C", harness.Module(t, ".ci", "pocketbase"), "build", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g := &gallery{T: t, redis: redistest.Start(t)}
	address := harness.FreeAddress(t)
	cms := &harness.Child{Program: program, Args: []string{"serve", "--http", address, "--dir", t.TempDir()}, Log: t.Output()}
	cms.Start(t)
	t.Cleanup(cms.Kill)
	g.cms = "http://" + address
	harness.WaitUntilWell(t, g.cms+"/api/health")
	var login struct{ Token string }
	g.ask(http.MethodPost, "/api/collections/_superusers/auth-with-password", `{"identity":"editor@example.org","password":"example-password"}`, &login)
	g.token = login.Token
	g.environ = []string{
		"VITRINE_UPSTREAM_URL=" + g.cms, "VITRINE_UPSTREAM_PRESET=pocketbase", "VITRINE_REDIS_URL=" + g.redis.URL(),
		"VITRINE_REDIS_PURGE_BOUND=1s", "VITRINE_TTL=500ms", "VITRINE_REFRESH=always", "VITRINE_GUARD_HOLD=" + hold.String(),
	}
	for range 2 {
		g.replicas = append(g.replicas, harness.Serve(t, g.environ...))
	}
	return g
}

// ask has the CMS do something.
func (g *gallery) ask(method, path, body string, reply any) {
	g.Helper()
	request, err := http.NewRequestWithContext(g.Context(), method, g.cms+path, strings.NewReader(body))
	testkit.Must(g, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", g.token)
	response, err := http.DefaultClient.Do(request)
	testkit.Must(g, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 == 2 {
		err = json.Unmarshal(text, reply)
	}
	if err != nil || response.StatusCode/100 != 2 {
		g.Fatalf("%s %s: %d, %v: %s", method, path, response.StatusCode, err, text)
	}
}

// rule sets a rule of a collection: null lets nobody in but superusers.
func (g *gallery) rule(collection, name, rule string) {
	g.Helper()
	g.ask(http.MethodPatch, "/api/collections/"+collection, fmt.Sprintf(`{%q:%s}`, name, rule), &struct{}{})
}

const (
	everybody = `""`
	members   = `"@request.auth.id != ''"` // and to the others the list is empty
)

// run runs vitrine, and wants that exit code.
func (g *gallery) run(code int, args ...string) string {
	g.Helper()
	command := exec.CommandContext(g.Context(), "vitrine", args...)
	command.Env = append(append(os.Environ(), g.environ...), "VITRINE_ADMIN_LISTEN="+g.replicas[0].Operator)
	out, err := command.CombinedOutput()
	if command.ProcessState == nil || command.ProcessState.ExitCode() != code {
		g.Errorf("vitrine %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// hset is what an operator types.
func (g *gallery) hset(field, value string) {
	g.Helper()
	testkit.Must(g, g.redis.Client().HSet(g.Context(), "vitrine:catalogue", field, value).Err())
}

// serve waits until both replicas serve so many artworks, and say so in Cache-Status.
func (g *gallery) serve(artworks int, detail string) {
	g.Helper()
	for i, v := range g.replicas {
		last := ""
		if err := testkit.Retry(func() error {
			status, header, body, err := harness.Get(http.DefaultClient, "http://"+v.Public+harness.Routes[shape.Catalogue])
			var lists map[string][]json.RawMessage
			if err == nil && status == http.StatusOK {
				err = json.Unmarshal(body, &lists)
			}
			last = fmt.Sprintf("%d, %d artworks, %s", status, len(lists["artwork"]), header.Get("Cache-Status"))
			if err == nil && (len(lists["artwork"]) != artworks || !strings.Contains(last, detail)) {
				err = fmt.Errorf("%s", last)
			}
			return err
		}); err != nil {
			g.Fatalf("replica %d: want %d artworks and %q: %v", i+1, artworks, detail, err)
		}
	}
}

// told waits until each replica's status, gauge and page say why a document is held back; "": that none
// is.
func (g *gallery) told(reason string) {
	g.Helper()
	for i, v := range g.replicas {
		read := func(path string) string {
			status, _, body, err := harness.Get(http.DefaultClient, "http://"+v.Operator+path)
			if err != nil || status != http.StatusOK {
				g.Fatalf("%s: %d, %v", path, status, err)
			}
			return string(body)
		}
		gauge, command := `vitrine_held_back{resource="catalogue"} `, "HSET vitrine:catalogue accept 1"
		testkit.Eventually(g, fmt.Sprintf("replica %d says %q", i+1, reason), func() bool {
			status, page, metrics := read("/api/status"), read("/"), read("/metrics")
			if reason == "" {
				return !strings.Contains(status, `"held_back": {`) && strings.Contains(metrics, gauge+"0") && !strings.Contains(page, command)
			}
			return strings.Contains(strings.ReplaceAll(status, " ", ""), strings.ReplaceAll(`"reason":"`+reason, " ", "")) &&
				strings.Contains(page, reason) && strings.Contains(page, command) && !strings.Contains(page, "All is well") && strings.Contains(metrics, gauge+"1")
		})
	}
}

func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}

func TestContentOfAPocketBaseIsKeptSafe(t *testing.T) {
	g := open(t)
	g.serve(290, "")
	before := strings.Fields(g.run(0, "history", "catalogue"))[1] // the one version

	// A rule hides everything: only an operator can mean that.
	g.rule("artworks", "listRule", members)
	g.serve(290, "detail=held")
	g.told("no artworks, 290 before")
	has(t, g.run(1, "check", "--diff"), "catalogue  HELD", "290 artworks removed", "it would be held back: no artworks, 290 before")
	has(t, g.run(0, "check"), "a document is held back")
	<-time.After(hold)
	g.serve(290, "detail=held")
	g.rule("artworks", "listRule", everybody)
	g.serve(290, "")
	g.told("")

	// It hides 95 %, which is accepted.
	g.rule("artworks", "listRule", `"id < 'artworks0000015'"`)
	g.serve(290, "detail=held")
	g.hset("accept", "1")
	g.serve(14, "")
	g.told("")
	has(t, g.run(0, "history", "catalogue"), before, "276 artworks removed (Werk ")

	// An earlier version is served until it is purged.
	g.hset("restore", before)
	g.serve(290, "detail=pinned")
	g.hset("fresh_until", "0")
	has(t, g.run(1, "check", "--diff"), "pinned until ")
	g.serve(290, "detail=pinned")
	has(t, g.run(0, "status"), "pinned by redis-cli, through ")
	g.run(0, "purge", "catalogue")
	g.serve(14, "")
	g.run(0, "restore", "catalogue", before)
	g.serve(290, "detail=pinned")
	g.run(0, "purge", "--history", "catalogue")
	g.serve(14, "")
	has(t, g.run(1, "restore", "catalogue", before), "no such version")
	testkit.Eventually(t, "what is served now is kept again", func() bool { return strings.Contains(g.run(0, "history", "catalogue"), "46 items") })
	g.rule("artworks", "listRule", everybody)
	g.serve(290, "")

	// A text is empty in all items, and still is when guard.hold is over.
	for n := range 12 {
		g.ask(http.MethodPatch, fmt.Sprintf("/api/collections/galleries/records/galleries%06d", n+1), `{"about":""}`, &struct{}{})
	}
	g.told("about is empty in all 12 galleries, 12 had it")
	g.told("")
	for i, v := range g.replicas {
		testkit.Eventually(t, fmt.Sprintf("replica %d serves galleries without it", i+1), func() bool {
			status, _, body, err := harness.Get(http.DefaultClient, "http://"+v.Public+"/gvapp/")
			return err == nil && status == http.StatusOK && !strings.Contains(string(body), "Over")
		})
	}

	// A relation is hidden, or a whole collection: that is refused, with the reason.
	g.rule("countries", "viewRule", "null")
	g.serve(290, "detail=stale-if-error")
	has(t, g.run(1, "check"), "country is not expanded, or not permitted")
	g.rule("countries", "viewRule", everybody)
	g.rule("artworks", "listRule", "null")
	has(t, g.run(1, "check"), "status 403", "Only superusers can perform this action.")
}
