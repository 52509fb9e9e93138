package operating

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
)

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
		Panels []struct {
			Targets []struct{ Expr string }
		}
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
		Groups []struct {
			Rules []struct{ Expr string }
		}
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
