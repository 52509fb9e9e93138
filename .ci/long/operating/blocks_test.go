package operating

import (
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
)

// A block is one of code on a page.
type block struct{ page, language, text string }

var fenced = regexp.MustCompile("(?ms)^```([a-z]*)[^\n]*\n(.*?)^```$")

// pages are the Markdown files of the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all, root := map[string]string{}, os.DirFS(harness.Root)
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "recorded"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".md"):
			text, err := fs.ReadFile(root, path)
			all[path] = string(text)
			return err
		}
		return nil
	})
	if err != nil || len(all) < 25 {
		t.Fatalf("%d pages: %v", len(all), err)
	}
	return all
}

// blocks are those of all pages.
func blocks(t *testing.T) []block {
	t.Helper()
	var all []block
	for page, text := range pages(t) {
		for _, m := range fenced.FindAllStringSubmatch(text, -1) {
			all = append(all, block{page, m[1], m[2]})
		}
	}
	slices.SortStableFunc(all, func(a, b block) int { return strings.Compare(a.page, b.page) })
	return all
}

// unrun are the pages and lines whose commands no test of this package runs, and why.
var unrun = map[string]string{
	"vitrine accept catalogue":         "is refused where nothing is held back; cmd/vitrine/testdata/script/held.txtar has it",
	"CONTRIBUTING.md":                  "the suites themselves, which .ci/run runs",
	"bench/README.md":                  "it measures for half an hour",
	"docs/performance.md":              "it measures for half an hour",
	"docs/compose.md":                  "it needs Docker; .ci/stack does what the page says",
	"docs/monitoring/README.md":        "it needs Docker and published images; operations_test.go runs Prometheus on its files",
	"docs/deploy/swarm/README.md":      "it needs a swarm; .ci/swarm does what the page says",
	"docs/deploy/kubernetes/README.md": "it needs a cluster; .ci/run kubernetes builds the base",
	"docs/deploy/systemd/README.md":    "it installs a package; .ci/package/check does, under systemd",

	"docker compose kill -s HUP vitrine": "it needs Docker; .ci/stack reloads so",
	"go run ./cmd/vitrine":               "it compiles and serves; the harness does both",
	"go test ./...":                      "the quick tests, which .ci/run runs",
	"go test -v ./... | grep -B 1 -e '--- SKIP' # what was skipped, and what to install": "those again",
	"go install ./cmd/vitrine": "it writes into GOPATH; the harness builds the same",
}

// A page has commands in blocks of sh or console, all of which a test runs, or which are named
// above.
func TestEveryBlockOfCommandsIsRunOrNamed(t *testing.T) {
	run := []string{"README.md", "docs/operations.md", "docs/configuration.md", "docs/purging.md", "docs/webhook.md"}
	command := regexp.MustCompile(`(?m)^(\$ |vitrine |redis-cli |docker |kubectl |curl |kill |systemctl )`)
	named := map[string]bool{}
	for _, b := range blocks(t) {
		switch b.language {
		case "sh", "console":
			if unrun[b.page] != "" {
				named[b.page] = true
			} else if !slices.Contains(run, b.page) {
				t.Errorf("nothing runs the commands of %s:\n%s", b.page, b.text)
			}
			for line := range strings.Lines(b.text) {
				named[strings.TrimPrefix(strings.TrimSpace(line), "$ ")] = true
			}
		default:
			if command.MatchString(b.text) && b.page != "docs/commands.md" { // which is made from --help
				t.Errorf("%s has commands in a block of %q:\n%s", b.page, b.language, b.text)
			}
		}
	}
	for what := range unrun {
		if !named[what] {
			t.Errorf("%s has no commands any more", what)
		}
	}
}

// Commands of vitrine and Redis, in blocks and in the text, are those of the programs, with their
// flags.
func TestEveryCommandOnThePagesExists(t *testing.T) {
	cli := harness.Need(t, "redis-cli", "redis-tools")
	server := redistest.Start(t)
	port := server.Addr[strings.LastIndexByte(server.Addr, ':')+1:]
	redis := regexp.MustCompile(`\bredis-cli (?:-[a-z] \S+ |--scan )*([A-Z]+)\b`)
	own := regexp.MustCompile("(?m)(?:^|[`/ ;(=])vitrine ([a-z][a-z-]+)((?: [^`\n|;#]*)?)")
	inline := regexp.MustCompile("`[^`\n]+`")
	flag := regexp.MustCompile(`(?:^| )(--[a-z][a-z-]*)`)
	help := map[string]string{}
	ask := func(command string) string {
		if _, ok := help[command]; !ok {
			out, err := exec.CommandContext(t.Context(), "vitrine", command, "--help").CombinedOutput()
			if err != nil {
				out = nil
			}
			help[command] = string(out)
		}
		return help[command]
	}
	found := 0
	for page, text := range pages(t) {
		if page == "CHANGELOG.md" {
			continue
		}
		var code []string
		for _, m := range fenced.FindAllStringSubmatch(text, -1) {
			if m[1] == "sh" || m[1] == "console" {
				code = append(code, m[2])
			}
		}
		for _, m := range inline.FindAllString(fenced.ReplaceAllString(text, ""), -1) {
			if strings.HasPrefix(m, "`vitrine ") || strings.HasPrefix(m, "`redis-cli ") || strings.Contains(m, "/vitrine ") {
				code = append(code, strings.Trim(m, "`"))
			}
		}
		for _, m := range redis.FindAllStringSubmatch(strings.Join(code, "\n"), -1) {
			found++
			out, err := exec.CommandContext(t.Context(), cli, "-p", port, "COMMAND", "INFO", m[1]).CombinedOutput()
			if err != nil || !strings.Contains(strings.ToLower(string(out)), strings.ToLower(m[1])) {
				t.Errorf("%s: Redis has no %s: %v", page, m[1], err)
			}
		}
		for _, line := range code {
			for _, m := range own.FindAllStringSubmatch(line, -1) {
				if m[1] == "vitrine" || strings.Contains(line, "SETUSER") || strings.Contains(line, "docker compose kill") || strings.Contains(line, "pull vitrine") {
					continue
				}
				found++
				if ask(m[1]) == "" {
					t.Errorf("%s: vitrine has no command %s: %s", page, m[1], line)
					continue
				}
				for _, f := range flag.FindAllStringSubmatch(m[2], -1) {
					if !strings.Contains(ask(m[1]), f[1]) {
						t.Errorf("%s: vitrine %s has no flag %s", page, m[1], f[1])
					}
				}
			}
		}
	}
	if found < 60 {
		t.Errorf("only %d commands were found", found)
	}
}

var (
	omitted = regexp.MustCompile(`(?m)^\s*(…|\\\.\\\.\\\.)\n?`)
	varying = []struct{ shown, meant *regexp.Regexp }{
		{regexp.MustCompile(`[0-9]+(\\\.[0-9]+)? ms`), regexp.MustCompile(`[0-9.]+ m?s`)},
		{regexp.MustCompile(`version [0-9]+\\\.[0-9]+\\\.[0-9]+`), regexp.MustCompile(`version [0-9.]+`)},
		{regexp.MustCompile(`^Age: [0-9]+`), regexp.MustCompile(`Age: [0-9]+`)},
		{regexp.MustCompile(`ttl=[0-9]+$`), regexp.MustCompile(`ttl=[0-9]+(; detail=[a-z]+)?`)},
		{regexp.MustCompile(`  +`), regexp.MustCompile(` +`)},
	}
)

// pattern fits what is shown. An … stands for anything, on a line of its own for any lines.
func pattern(shown string) *regexp.Regexp {
	text := regexp.QuoteMeta(shown)
	text = omitted.ReplaceAllString(text, "(?s:.*)")
	for _, v := range varying {
		text = v.shown.ReplaceAllString(text, strings.ReplaceAll(v.meant.String(), "$", "$$"))
	}
	return regexp.MustCompile("(?m)" + strings.ReplaceAll(text, "…", ".*"))
}
