package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
)

// TestMistakesInPartsAreNamedWithTheirLine runs each file of testdata/parts, whose first line has
// the message.
func TestMistakesInPartsAreNamedWithTheirLine(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "parts", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		testkit.Must(t, err)
		want, _, _ := strings.Cut(strings.TrimPrefix(string(content), "# "), "\n")
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{"config", "--config", file}, program{stdout: &out, stderr: &errs})
		got := strings.ReplaceAll(errs.String(), filepath.Dir(file)+string(filepath.Separator), "")
		if code != exitWrong || !strings.Contains(got, want) {
			t.Errorf("%s: exits %d\ngot  %swant %s", file, code, got, want)
		}
		if strings.Contains(got, "hunter") {
			t.Errorf("%s: shows a secret: %s", file, got)
		}
	}
}
