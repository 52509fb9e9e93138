// Package operating runs what the documentation tells operators to type, and what watches
// vitrine: systemd, Prometheus.
package operating

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/upstreamtest"
)

// A desk is where an operator types: a vitrine, a Redis and the stand-in of the CMS, with a
// redis-cli and a pidof that find them under the addresses of the pages.
type desk struct {
	*testing.T
	redis            *redistest.Server
	public, operator string
	addresses        *strings.Replacer
	environ          []string
}

func sitDown(t *testing.T) *desk {
	t.Helper()
	cli := harness.Need(t, "redis-cli", "redis-tools")
	harness.Need(t, "curl", "curl")
	d := &desk{T: t, redis: redistest.Start(t), public: harness.FreeAddress(t), operator: harness.FreeAddress(t)}
	cms := harness.FreeAddress(t)
	harness.SampleCMS(t, cms)
	settings := []string{
		"VITRINE_LISTEN=" + d.public, "VITRINE_ADMIN_LISTEN=" + d.operator,
		"VITRINE_UPSTREAM_URL=http://" + cms, "VITRINE_REDIS_URL=" + d.redis.URL(),
		"VITRINE_HOOK_SECRET=open-sesame",
	}
	vitrine := harness.Child{Environ: settings, Log: t.Output()}
	vitrine.Start(t)
	t.Cleanup(vitrine.Stop)
	d.ready()

	bin := t.TempDir()
	port := d.redis.Addr[strings.LastIndexByte(d.redis.Addr, ':')+1:]
	for name, script := range map[string]string{
		"redis-cli": fmt.Sprintf(`[ "$1" = -p ] && shift 2; exec %s -e -p %s "$@"`, cli, port),
		"pidof":     fmt.Sprintf("echo %d %[1]d", vitrine.Pid()), // as of two replicas
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	d.environ = append(append(os.Environ(), settings...), "SECRET=open-sesame", "PATH="+bin+":"+os.Getenv("PATH"))
	d.addresses = strings.NewReplacer("127.0.0.1:8080", d.public, "127.0.0.1:9090", d.operator)
	return d
}

// ready waits until each document can be served.
func (d *desk) ready() {
	d.Helper()
	harness.WaitUntilWell(d, "http://"+d.operator+"/readyz")
}

// types runs a command as an operator does, and returns what it prints.
func (d *desk) types(command string, environ ...string) (string, error) {
	shell := exec.CommandContext(d.Context(), "bash", "-o", "pipefail", "-ec", d.addresses.Replace(command))
	shell.Env = append(d.environ, environ...)
	out, err := shell.CombinedOutput()
	return string(out), err
}

// Each line of the blocks that a bare machine can run is run, page by page in the order in which it
// stands there, and prints something.
func TestWhatOperatorsAreToldToTypeWorks(t *testing.T) {
	d := sitDown(t)
	for _, page := range []string{"docs/operations.md", "docs/configuration.md", "docs/purging.md", "docs/webhook.md", "README.md"} {
		ran := 0
		for _, b := range blocks(t) {
			if b.page != page || b.language != "sh" {
				continue
			}
			d.ready()
			for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", "")) {
				if line = strings.TrimSpace(line); line == "" || line[0] == '#' || unrun[line] != "" {
					continue
				}
				ran++
				if strings.Contains(line, "VERSION") {
					version, err := d.types("vitrine history banners | awk 'END { print $1 }'")
					if err != nil {
						t.Fatalf("%v\n%s", err, version)
					}
					line = strings.Replace(line, "VERSION", strings.TrimSpace(version), 1)
				}
				out, err := d.types(line)
				silent := strings.HasPrefix(line, "kill") || strings.HasPrefix(line, "vitrine healthcheck")
				if err != nil || out == "" && !silent {
					t.Errorf("%s: %s: %v\n%s", page, line, err, out)
				}
			}
		}
		if ran == 0 {
			t.Errorf("nothing of %s was run", page)
		}
	}
	d.ready()
}

// What the pages show after a command is what it prints, but for times, versions and addresses.
func TestWhatThePagesShowIsWhatIsPrinted(t *testing.T) {
	d := sitDown(t)
	for _, command := range []string{
		"CONFIG SET maxmemory 100mb", "CONFIG SET maxmemory-policy allkeys-lru", "CONFIG SET appendonly no", "ACL SETUSER default -hkeys",
	} {
		harness.Redis(t, d.redis.Addr, command)
	}
	cms := upstreamtest.New(t)
	for path, name := range map[string]string{
		"artists": "artists-populate-star", "artworks": "artworks-list", "galleries": "galleries-populate-deep3",
		"rules": "rules-populate-deep", "banners": "banners-list",
	} {
		cms.HandlePath("/api/"+path, upstreamtest.Recorded(t, upstreamtest.Recording(t, "strapi5/"+name)))
	}
	d.addresses = strings.NewReplacer("127.0.0.1:6379", d.redis.Addr, "https://cms.example.org", cms.URL)
	own := []string{ // of a vitrine that a block starts
		"VITRINE_LISTEN=" + harness.FreeAddress(t), "VITRINE_ADMIN_LISTEN=", "VITRINE_REDIS_URL=embedded:127.0.0.1:0",
		"VITRINE_UPSTREAM_URL=", "VITRINE_HOOK_SECRET=",
	}
	compared := 0
	for _, b := range blocks(t) {
		if b.language != "console" {
			continue
		}
		exports := ""
		for _, part := range strings.Split("\n"+b.text, "\n$ ")[1:] {
			command, shown, _ := strings.Cut(part, "\n")
			shown = strings.Trim(shown, "\n")
			switch {
			case unrun[command] != "":
				continue
			case strings.HasPrefix(command, "export "):
				exports += command + "; "
				continue
			case shown == "" && strings.HasSuffix(command, "vitrine"): // it serves until it is stopped
				command = "timeout --foreground --preserve-status -s TERM 5 env " + command
			}
			got, err := d.types(exports+command, own...)
			if err != nil && !strings.HasPrefix(shown, "vitrine: ") || shown != "" && !pattern(d.addresses.Replace(shown)).MatchString(got) {
				t.Errorf("%s: %s: %v\n%s\nwant\n%s", b.page, command, err, got, shown)
			}
			compared++
		}
	}
	if compared < 4 {
		t.Errorf("only %d commands were run", compared)
	}
}

// README shows a part of an answer's header.
func TestTheAnswerThatReadmeShowsIsOne(t *testing.T) {
	vitrine := harness.Serve(t)
	for _, b := range blocks(t) {
		if b.page != "README.md" || !strings.HasPrefix(b.text, "HTTP/1.1 200 OK\n") {
			continue
		}
		out, err := exec.CommandContext(t.Context(), "curl", "-si", "http://"+vitrine.Public+"/gvapp/singlebanner?ordering=-id").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for line := range strings.Lines(b.text) {
			if line = strings.TrimSpace(line); !pattern(line).Match(out) {
				t.Errorf("no line is as %s:\n%s", line, out)
			}
		}
		return
	}
	t.Error("README shows no answer")
}

func TestMain(m *testing.M) { harness.Main(m) }

func TestSystemdPassesThePublicSocketAndHearsWhenItIsServed(t *testing.T) {
	public, socket := harness.OpenSocket(t)
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	testkit.Must(t, err)
	defer manager.Close()

	vitrine := harness.Child{Socket: socket, Log: t.Output(), Environ: []string{
		"NOTIFY_SOCKET=" + manager.LocalAddr().String(), "WATCHDOG_USEC=100000", "VITRINE_LISTEN=:1",
	}}
	vitrine.Start(t)
	defer vitrine.Stop()

	waiting := map[string]int{"READY=1": 1, "WATCHDOG=1": 3}
	for state := make([]byte, 100); len(waiting) > 0; {
		testkit.Must(t, manager.SetReadDeadline(time.Now().Add(10*time.Second)))
		n, err := manager.Read(state)
		if err != nil {
			t.Fatalf("still waiting for %v: %v", waiting, err)
		}
		if name := string(state[:n]); waiting[name] > 1 {
			waiting[name]--
		} else {
			delete(waiting, name)
		}
	}
	if status, _, body, err := harness.Get(http.DefaultClient, "http://"+public+"/gvapp/"); err != nil || status != http.StatusOK || !strings.HasPrefix(string(body), `{"artist":`) {
		t.Errorf("status %d, %.80q, %v", status, body, err)
	}
}

var monitoring = filepath.Join(harness.Root, "docs", "monitoring")

func TestTheAlertsAreThoseThatTheirTestHolds(t *testing.T) {
	harness.Need(t, "promtool", "prometheus")
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		command := exec.CommandContext(t.Context(), "promtool", args...)
		command.Dir = monitoring
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// No query names a metric or a label that is not there.
func TestEveryQueryOfTheDashboardFindsWhatItAsksFor(t *testing.T) {
	harness.Need(t, "prometheus", "prometheus")
	config := harness.File(t, "vitrine.yaml", "notify: [{name: chat, preset: webhook, url: 'http://127.0.0.1:1'}]\n")
	vitrine := harness.Serve(t, "VITRINE_ADMIN_TOKEN=open-sesame", "VITRINE_CONFIG="+config)
	for _, path := range harness.Routes { // a hit of each
		for range 2 {
			testkit.Must(t, harness.IsWellAt("http://"+vitrine.Public+path))
		}
	}
	at := prometheus(t, vitrine.Operator)
	for _, expr := range append(dashboardQueries(t), alertMetrics(t)...) {
		if err := testkit.Retry(func() error { return hasSamples(at, expr) }); err != nil {
			t.Errorf("%s: %v", expr, err)
		}
	}
}

// prometheus scrapes target until the test ends, and returns its address.
func prometheus(t *testing.T, target string) string {
	t.Helper()
	address := harness.FreeAddress(t)
	config := fmt.Sprintf(`{global: {scrape_interval: 200ms}, scrape_configs: [{job_name: vitrine,
		authorization: {credentials: open-sesame}, static_configs: [{targets: [%q]}]}]}`, target)
	harness.Run(t, address, "prometheus", "--config.file="+harness.File(t, "prometheus.yml", config), "--storage.tsdb.path="+t.TempDir(),
		"--web.listen-address="+address, "--log.level=warn")
	harness.WaitUntilWell(t, "http://"+address+"/-/ready")
	return address
}

// hasSamples runs a query and wants an answer that is not empty.
func hasSamples(at, expr string) error {
	response, err := http.Get("http://" + at + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var told struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(response.Body).Decode(&told); err != nil {
		return err
	}
	switch {
	case told.Status != "success":
		return errors.New(told.Error)
	case len(told.Data.Result) == 0:
		return errors.New("no samples")
	}
	return nil
}

// dashboardQueries are the queries as Grafana would send them.
func dashboardQueries(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(monitoring, "dashboard.json"))
	testkit.Must(t, err)
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	testkit.Must(t, json.Unmarshal(content, &dashboard))
	var out []string
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			out = append(out, strings.NewReplacer("$__rate_interval", "1m", "$instance", ".+").Replace(target.Expr))
		}
	}
	if len(out) < 12 {
		t.Fatalf("only %d queries in the dashboard", len(out))
	}
	return out
}

// alertMetrics are the metrics that the alerts look at. The alerts themselves have no samples while
// all is well.
func alertMetrics(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(monitoring, "alerts.yml"))
	testkit.Must(t, err)
	var rules struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	testkit.Must(t, yaml.Unmarshal(content, &rules))
	var out []string
	for _, rule := range rules.Groups[0].Rules {
		for word := range strings.FieldsFuncSeq(rule.Expr, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
			if strings.HasPrefix(word, "vitrine_") && word != "vitrine_certificate_not_after_seconds" { // absent without TLS
				out = append(out, word)
			}
		}
	}
	return out
}
