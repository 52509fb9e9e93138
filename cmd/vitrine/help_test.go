package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vitrine/cmd/testkit"
)

// helpText is what a command prints with --help.
func helpText(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), append(args, "--help"), program{stdout: &out, stderr: &errs}); code != exitDone || errs.Len() > 0 {
		t.Fatalf("%q: %d, %s", args, code, errs.String())
	}
	return out.String()
}

// TestHelpIsAScreenWithoutMarkdown holds also the page of the commands against it. -update writes it.
func TestHelpIsAScreenWithoutMarkdown(t *testing.T) {
	page := "# Commands\n\nMade from `vitrine --help` by `go test ./cmd/vitrine -update`.\n\n```text\n" + helpText(t) + "```\n"
	for _, c := range commands {
		text := helpText(t, c.name)
		page += "\n## " + c.name + "\n\n```text\n" + text + "```\n"
		lines := strings.Split(text, "\n")
		if len(lines) > 32 || strings.Contains(text, "`") || strings.Contains(text, "](") {
			t.Errorf("%s: %d lines, or Markdown:\n%s", c.name, len(lines), text)
		}
		if strings.Count(text, "\n  vitrine ")+strings.Count(text, "\n  VITRINE_") != 2 || !strings.Contains(text, "Exit codes: 0 ") || !c.isOffline && !strings.Contains(text, "\nSettings: --config, ") {
			t.Errorf("%s lacks two examples, exit codes or where the settings are:\n%s", c.name, text)
		}
	}
	for line := range strings.Lines(page) {
		if len(line) > 101 {
			t.Error(line)
		}
	}
	file := filepath.Join("..", "..", "docs", "commands.md")
	if *update {
		testkit.Must(t, os.WriteFile(file, []byte(page), 0o644))
	}
	content, err := os.ReadFile(file)
	testkit.Must(t, err)
	if diff := cmp.Diff(string(content), page); diff != "" {
		t.Errorf("docs/commands.md differs; run with -update:\n%s", diff)
	}
}
