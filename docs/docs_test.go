// Package docs checks the pages against the repository: links, the table of packages, and the names
// of tests, messages and settings.
package docs

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/config"
)

// pages returns every Markdown file of the repository by its path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for path, text := range files(t, ".md") {
		all[path] = string(text)
	}
	if len(all) < 10 {
		t.Fatalf("only %d pages found", len(all))
	}
	return all
}

// files returns the files of the repository whose names end in suffix.
func files(t *testing.T, suffix string) map[string][]byte {
	t.Helper()
	root := os.DirFS("..")
	all := map[string][]byte{}
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, suffix):
			return nil
		}
		all[path], err = fs.ReadFile(root, path)
		return err
	})
	testkit.Must(t, err)
	return all
}

var (
	fence  = regexp.MustCompile("(?ms)^```.*?^```$")
	inline = regexp.MustCompile("`[^`\n]*`")
)

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)|src="([^"]+)"`)
	all := pages(t)
	for path, text := range all {
		for _, m := range link.FindAllStringSubmatch(inline.ReplaceAllString(fence.ReplaceAllString(text, ""), ""), -1) {
			target := m[1] + m[2]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			at := path
			if file != "" {
				at = filepath.ToSlash(filepath.Join(filepath.Dir(path), file))
			}
			if _, err := os.Stat(filepath.Join("..", at)); err != nil {
				t.Errorf("%s links to %s: %v", path, target, err)
			} else if anchor != "" && !anchors(all[at])[anchor] {
				t.Errorf("%s links to %s, and %s has no such heading", path, target, at)
			}
		}
	}
}

// Pages quote a log message as: `message` in the log.
func TestEveryLogMessageThatThePagesQuoteExists(t *testing.T) {
	message := regexp.MustCompile("`([a-z][^`]+)`(?: once)? in the log")
	var code bytes.Buffer
	for path, text := range files(t, ".go") {
		if !strings.HasSuffix(path, "_test.go") {
			code.Write(text)
		}
	}
	quoted := 0
	for path, text := range pages(t) {
		for _, m := range message.FindAllStringSubmatch(text, -1) {
			quoted++
			if !bytes.Contains(code.Bytes(), []byte(m[1])) {
				t.Errorf("%s quotes %q from the log, and nothing logs it", path, m[1])
			}
		}
	}
	if quoted < 4 {
		t.Errorf("only %d messages are quoted", quoted)
	}
}

func TestEveryAlertNamesASectionOfOperations(t *testing.T) {
	known := anchors(pages(t)["docs/operations.md"])
	named := regexp.MustCompile(`docs/operations\.md#([a-z-]+)`).FindAllSubmatch(files(t, "alerts.yml")["docs/monitoring/alerts.yml"], -1)
	if len(named) < 10 {
		t.Fatalf("only %d alerts name a section", len(named))
	}
	for _, m := range named {
		if !known[string(m[1])] {
			t.Errorf("docs/operations.md has no section %s", m[1])
		}
	}
}

// anchors returns the fragments that GitHub makes of a page's headings.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		name := dropped.ReplaceAllString(strings.ToLower(heading[1]), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}

// A name that ends in … stands for every test that begins so.
func TestEveryTestThatThePagesNameExists(t *testing.T) {
	name := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*)(…?)")
	var tests bytes.Buffer
	for _, text := range files(t, "_test.go") {
		tests.Write(text)
	}
	code := tests.String()
	for path, text := range pages(t) {
		for _, m := range name.FindAllStringSubmatch(text, -1) {
			declared := "\nfunc " + m[1] + "("
			if m[2] != "" {
				declared = "\nfunc " + m[1]
			}
			if !strings.Contains(code, declared) {
				t.Errorf("%s names %s, which is not a test", path, m[1])
			}
		}
	}
}

// Each part of a name after -run is that of a test in the package that is named before it.
func TestEveryTestThatThePagesRunExists(t *testing.T) {
	command := regexp.MustCompile("`go (?:-C (\\S+) )?test \\./(\\S+) -run ([A-Za-z]+)")
	tests := map[string]string{}
	for path, text := range files(t, "_test.go") {
		tests[filepath.ToSlash(filepath.Dir(path))] += string(text)
	}
	run := 0
	for path, text := range pages(t) {
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			run++
			if folder := filepath.ToSlash(filepath.Join(m[1], m[2])); !regexp.MustCompile(`\nfunc \w*` + m[3]).MatchString(tests[folder]) {
				t.Errorf("%s runs %s in %s, where no test is called so", path, m[3], folder)
			}
		}
	}
	if run < 4 {
		t.Errorf("only %d are run", run)
	}
}

// The table of docs/design.md names every package that the binary links, and what it imports of
// ours.
func TestTheTableOfPackagesIsThatOfTheCode(t *testing.T) {
	imports := map[string]map[string]bool{}
	for path, text := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
		testkit.Must(t, err)
		dir := filepath.ToSlash(filepath.Dir(path))
		if imports[dir] == nil {
			imports[dir] = map[string]bool{}
		}
		for _, i := range file.Imports {
			if ours, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), "vitrine/"); ok {
				imports[dir][ours] = true
			}
		}
	}
	linked := map[string]bool{}
	var link func(string)
	link = func(name string) {
		if !linked[name] {
			linked[name] = true
			for ours := range imports[name] {
				link(ours)
			}
		}
	}
	link("cmd/vitrine")
	name := regexp.MustCompile("`([a-z/]+)`")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z/]+)` \\|.*\\| ([^|]+) \\|$").FindAllStringSubmatch(pages(t)["docs/design.md"], -1) {
		if !linked[row[1]] {
			t.Errorf("docs/design.md has %s, which the binary does not link or which is there twice", row[1])
		}
		delete(linked, row[1])
		if row[2] == "all" {
			continue
		}
		told := map[string]bool{}
		for _, m := range name.FindAllStringSubmatch(row[2], -1) {
			told[m[1]] = true
		}
		if !maps.Equal(told, imports[row[1]]) {
			t.Errorf("docs/design.md: %s imports %v, not %v", row[1], imports[row[1]], told)
		}
	}
	for missing := range linked {
		t.Errorf("docs/design.md lacks %s", missing)
	}
}

// A variable of the pages is a setting, or one of these: of the compose files, of an example, or
// one that Kubernetes sets.
func TestEveryVariableThatThePagesNameIsASetting(t *testing.T) {
	known := map[string]bool{}
	for _, name := range []string{"CONFIG", "CONFIG_NAME", "MEMORY", "SERVICE_HOST", "PORT", "UPSTREAM_URI", "HOOK", "SECRET"} {
		known["VITRINE_"+name] = true
	}
	for _, s := range config.Settings() {
		known[s.Env] = true
	}
	variable := regexp.MustCompile(`\bVITRINE_[A-Z]+(?:_[A-Z]+)*\b`)
	for path, text := range pages(t) {
		for _, name := range variable.FindAllString(text, -1) {
			if !known[name] {
				t.Errorf("%s names %s, which is not a setting", path, name)
			}
		}
	}
}

// docs/log.md has every warning and error of the program.
func TestThePageOfTheLogHasEveryWarning(t *testing.T) {
	call := regexp.MustCompile(`\.(?:Warn|Error)(?:Context)?\((?:[a-zA-Z.()]+, )?"([a-z][^"]+)"`)
	page, found := pages(t)["docs/log.md"], 0
	for path, text := range files(t, ".go") {
		program := regexp.MustCompile(`^(cmd|proxy|cache|upstream|config)/`).MatchString(path)
		if !program || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") || strings.Contains(path, "testkit/") || strings.Contains(path, "coherence/") {
			continue
		}
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			if strings.HasSuffix(m[1], " ") || !strings.Contains(m[1], " ") { // not a message
				continue
			}
			if found++; !strings.Contains(page, "`"+m[1]) {
				t.Errorf("%s logs %q, which docs/log.md does not have", path, m[1])
			}
		}
	}
	if found < 25 {
		t.Errorf("only %d messages were found", found)
	}
}
