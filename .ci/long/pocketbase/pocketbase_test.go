// Package pocketbase has permissions and content change in a real PocketBase behind two replicas: what
// is lost by accident is held back, told, compared and had back. The PocketBase is ../../pocketbase, a
// module of its own, which is compiled for it.
package pocketbase

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// gallery is a PocketBase, a Redis and two replicas, each with its own way to Redis.
type gallery struct {
	*testing.T
	cms      string // its URL
	token    string
	redis    *redistest.Server
	config   string // the replicas' file
	mappings int    // that they have had
	broken   string // a text of the catalogue that an editor makes disappear
	environ  []string
	ways     []*redistest.Relay
	replicas []*harness.Served

	mu     sync.Mutex // guards the field below
	events []string   // that they have sent, each once
}

func open(t *testing.T, environ ...string) *gallery {
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
	editor := httptest.NewServer(http.HandlerFunc(g.notified))
	t.Cleanup(editor.Close)
	g.config = filepath.Join(t.TempDir(), "vitrine.yaml")
	g.environ = append(append(g.environ, environ...), "VITRINE_CONFIG="+g.config, "EDITOR="+editor.URL)
	g.remap()
	for range 2 {
		way := redistest.NewRelay(t, g.redis.Addr)
		g.ways = append(g.ways, way)
		g.replicas = append(g.replicas, harness.Serve(t, append(slices.Clone(g.environ), "VITRINE_REDIS_URL="+way.URL())...))
	}
	return g
}

// remap has the file say another mapping, which makes the same documents.
func (g *gallery) remap() {
	g.mappings++
	text := fmt.Sprintf(`
upstream: {resources: {catalogue: {map: '.artwork |= map(select(.id != %d))'}}}
notify: [{name: editor, preset: webhook, url: "${EDITOR}", events: [held, released]}]
`, g.mappings)
	testkit.Must(g, os.WriteFile(g.config, []byte(text), 0o600))
}

// restart restarts a replica, with what is in the file now.
func (g *gallery) restart(i int) {
	g.replicas[i].End()
	g.replicas[i].Start(g)
	harness.WaitUntilWell(g, "http://"+g.replicas[i].Operator+"/readyz")
}

func (g *gallery) notified(_ http.ResponseWriter, r *http.Request) {
	var event struct{ ID, Event, Reason string }
	if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
		g.Error(err)
	}
	text := fmt.Sprintf("%s %s: %s", event.ID, event.Event, event.Reason)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(g.events, text) { // a Redis that has lost what was sent has it sent again, as the same event
		g.events = append(g.events, text)
	}
}

// sent waits until the editor was sent so many events in all, of which the last one is this.
func (g *gallery) sent(n int, last string) {
	g.Helper()
	testkit.Eventually(g, last+" is sent", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		if len(g.events) > n {
			g.Fatalf("sent %q, want %d events", g.events, n)
		}
		return len(g.events) == n && strings.HasSuffix(g.events[n-1], last)
	})
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
		gauge, command := `vitrine_held_back{resource="catalogue"} `, ">vitrine accept catalogue<"
		testkit.Eventually(g, fmt.Sprintf("replica %d says %q", i+1, reason), func() bool {
			status, page, metrics := read("/api/status"), read("/"), read("/metrics")
			if reason == "" {
				return !strings.Contains(status, `"held_back": {`) && strings.Contains(metrics, gauge+"0") && !strings.Contains(page, command)
			}
			return strings.Contains(strings.ReplaceAll(status, " ", ""), strings.ReplaceAll(`"reason":"`+reason, " ", "")) &&
				strings.Contains(page, reason) && strings.Contains(page, command) && strings.Contains(metrics, gauge+"1")
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
	has(t, g.run(1, "check"), "1 of 3 resources would be held back")
	<-time.After(hold)
	g.serve(290, "detail=held")
	g.rule("artworks", "listRule", everybody)
	g.serve(290, "")
	g.told("")

	// It hides 95 %, which is accepted.
	g.rule("artworks", "listRule", `"id < 'artworks0000015'"`)
	g.serve(290, "detail=held")
	g.run(0, "accept", "catalogue")
	g.serve(14, "")
	g.told("")
	has(t, g.run(0, "history", "catalogue"), before, "276 artworks removed (Werk ")

	// An earlier version is served until it is purged.
	g.run(0, "restore", "catalogue", before)
	g.serve(290, "detail=restored")
	has(t, g.run(1, "check", "--diff"), "restored until ")
	has(t, g.run(0, "status"), "restored an earlier version, until ")
	g.run(0, "purge", "catalogue")
	g.serve(14, "")
	g.run(0, "restore", "catalogue", before)
	g.serve(290, "detail=restored")
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

	// A relation that is hidden is held back; a collection that is hidden is refused, with the reason.
	g.rule("countries", "viewRule", "null")
	g.serve(290, "detail=held")
	has(t, g.run(1, "check"), "country")
	g.rule("countries", "viewRule", everybody)
	g.rule("artworks", "listRule", "null")
	has(t, g.run(1, "check"), "status 403", "Only superusers can perform this action.")
}

// incidents are what can happen to a fleet while a document is held back. The first replica always has a
// copy, or finds one in Redis.
var incidents = []struct {
	name string
	of   func(g *gallery)
}{
	{"a deploy", func(g *gallery) { g.restart(0); g.restart(1) }},
	{"a deploy of another mapping", func(g *gallery) { g.remap(); g.restart(0); g.restart(1) }},
	{"a cut link", func(g *gallery) {
		g.ways[1].Cut()
		g.whole()
		g.ways[1].Heal()
	}},
	{"all links cut", func(g *gallery) {
		g.ways[0].Cut()
		g.ways[1].Cut()
		g.whole()
		g.ways[0].Heal()
		g.ways[1].Heal()
	}},
	{"a replica without a copy", func(g *gallery) { g.restart(1) }},
	{"an empty Redis", func(g *gallery) { g.redis.Restart() }},
	{"an empty Redis, and a replica without a copy", func(g *gallery) {
		g.redis.Restart()
		testkit.Eventually(g, "the copy is back in Redis", func() bool { return g.redis.Client().HExists(g.Context(), "vitrine:catalogue", "body").Val() })
		g.restart(1)
	}},
	{"a replica that starts cut off", func(g *gallery) {
		g.ways[1].Cut()
		g.restart(1)
		g.ways[1].Heal()
	}},
}

// losses are what an editor breaks, and mends again.
var losses = []struct {
	reason   string
	do, undo func(g *gallery)
	lost     string // from the catalogue
}{
	{"no artworks, 290 before", func(g *gallery) { g.rule("artworks", "listRule", members) }, func(g *gallery) { g.rule("artworks", "listRule", everybody) }, `"Werk 290"`},
	{"14 artworks, 290 before", func(g *gallery) { g.rule("artworks", "listRule", `"id < 'artworks0000015'"`) }, func(g *gallery) { g.rule("artworks", "listRule", everybody) }, `"Werk 290"`},
	{"gallery_artists is empty in all 20 artists, 20 had it", func(g *gallery) { g.rule("galleries", "viewRule", "null") }, func(g *gallery) { g.rule("galleries", "viewRule", everybody) }, `"gallery_artists":{`},
	{"visible is false in all 20 artists, true in 20 before", func(g *gallery) { g.show(false) }, func(g *gallery) { g.show(true) }, `"visible":true`},
}

// show sets the flag of all artists.
func (g *gallery) show(visible bool) {
	for n := range 20 {
		g.ask(http.MethodPatch, fmt.Sprintf("/api/collections/artists/records/artists%08d", n+1), fmt.Sprintf(`{"visible":%v}`, visible), &struct{}{})
	}
}

// whole wants what an editor broke to be served for three TTLs.
func (g *gallery) whole() {
	g.Helper()
	for range 60 {
		for i, v := range g.replicas {
			status, header, body, err := harness.Get(http.DefaultClient, "http://"+v.Public+"/gvapp/")
			if testkit.Must(g, err); status != http.StatusOK || !strings.Contains(string(body), g.broken) {
				g.Fatalf("replica %d: %d without %s, %s", i+1, status, g.broken, header.Get("Cache-Status"))
			}
		}
		<-time.After(25 * time.Millisecond)
	}
}

func TestAHoldOutlastsWhatHappensToTheFleet(t *testing.T) {
	g := open(t, "VITRINE_GUARD_HOLD=1h")
	for i, loss := range losses {
		g.serve(290, "")
		g.broken = loss.lost
		loss.do(g)
		g.told(loss.reason)
		for _, incident := range incidents {
			t.Log(loss.reason, ": ", incident.name)
			incident.of(g)
			g.serve(290, "detail=held")
			g.told(loss.reason)
			g.whole()
		}
		g.sent(2*i+1, "held: "+loss.reason)
		harness.Redis(t, g.redis.Addr, "FLUSHALL") // a purge
		g.told("")
		g.sent(2*i+2, "released: accepted")
		loss.undo(g)
	}
}
