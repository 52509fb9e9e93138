// Package docs checks the pages against the repository: links, the names of tests, and the tour of
// the code.
package docs

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
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
	if err != nil {
		t.Fatal(err)
	}
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

// The tour of docs/design.md lists the files that a hit goes through, then those that a fetch adds, each on a line of
// its own. It stays short enough for an hour.
func TestTheTourIsAsLongAsDesignSays(t *testing.T) {
	page, err := os.ReadFile("design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tour, found := strings.Cut(string(page), "\n## The tour\n")
	if !found {
		t.Fatal("docs/design.md has no tour")
	}
	hit, fetch, found := strings.Cut(tour, "\n### A fetch\n")
	if !found {
		t.Fatal("the tour of docs/design.md has no section on a fetch")
	}
	stop := regexp.MustCompile("(?m)^[0-9]+\\. `([^`]+)`")
	seen := map[string]bool{}
	files, lines := 0, 0
	for _, part := range []struct {
		name, text         string
		maxFiles, maxLines int
	}{
		{"Hit", hit, 20, 2200},
		{"Hit and fetch together", fetch, 45, 6500},
	} {
		for _, m := range stop.FindAllStringSubmatch(part.text, -1) {
			content, err := os.ReadFile(filepath.Join("..", m[1]))
			if err != nil {
				t.Errorf("the tour stops at %s: %v", m[1], err)
			}
			if seen[m[1]] {
				t.Errorf("the tour stops at %s twice", m[1])
			}
			seen[m[1]] = true
			files++
			lines += bytes.Count(content, []byte("\n"))
		}
		if files > part.maxFiles || lines > part.maxLines {
			t.Errorf("%s: %d files and %d lines are too many: want at most %d and %d",
				part.name, files, lines, part.maxFiles, part.maxLines)
		}
		stated := regexp.MustCompile(regexp.QuoteMeta(part.name) + `: ([0-9]+) files, about ([0-9,]+) lines\.`).FindStringSubmatch(part.text)
		if stated == nil {
			t.Errorf("the tour does not say how long it is: want %q", fmt.Sprintf("%s: %d files, about %d lines.", part.name, files, lines))
			continue
		}
		if stated[1] != strconv.Itoa(files) {
			t.Errorf("%s: docs/design.md says %s files, and the tour has %d", part.name, stated[1], files)
		}
		about, err := strconv.Atoi(strings.ReplaceAll(stated[2], ",", ""))
		if err != nil || lines < about*9/10 || lines > about*11/10 {
			t.Errorf("%s: docs/design.md says about %s lines, and the tour has %d", part.name, stated[2], lines)
		}
	}
}
