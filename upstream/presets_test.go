package upstream

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/upstream/presets"
	"vitrine/upstream/shape"
)

var update = flag.Bool("update", false, "write the documents that presets make of their answers")

// TestAPresetIsOneFileAndItsAnswers finds everything about a preset by its name, so that adding one
// takes nothing else: the answers of its CMS, recorded or written, in presets/testdata, and beside
// them the documents that it makes of them. Those of the presets that were recorded from a whole
// site are tested against its rows, in cmd/vitrine.
func TestAPresetIsOneFileAndItsAnswers(t *testing.T) {
	files, err := fs.Glob(presets.FS, "*.yaml")
	if err != nil || len(files) < 13 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".yaml")
		t.Run(name, func(t *testing.T) {
			text, err := fs.ReadFile(presets.FS, file)
			testkit.Must(t, err)
			if n := bytes.Count(text, []byte("\n")); n > 60 || name != "custom" && !bytes.Contains(text, []byte("Answers: ")) {
				t.Errorf("%d lines, or not a word about its answers", n)
			}
			answers := filepath.Join("presets", "testdata", name)
			if _, err := os.Stat(answers); errors.Is(err, fs.ErrNotExist) {
				if _, err := os.Stat(filepath.Join("upstreamtest", "recorded", name)); err != nil && name != "custom" {
					t.Error("there are no answers of it")
				}
				return
			}
			client := newClient(t, "file:"+answers, func(o *options) { o.Preset = name })
			for _, r := range shape.Resources() {
				got := mustFetch(t, client, r)
				if len(got.Suspicions) > 0 {
					t.Errorf("%s: %v", r, got.Suspicions)
				}
				golden := filepath.Join(answers, "want", string(r)+".json")
				pretty := append(shape.Indent(nil, got.Document.Body, 1), 10)
				if *update {
					testkit.Must(t, errors.Join(os.MkdirAll(filepath.Dir(golden), 0o755), os.WriteFile(golden, pretty, 0o644)))
				}
				want, err := os.ReadFile(golden)
				if err != nil || !bytes.Equal(pretty, want) {
					t.Errorf("%s: %v\n%s", r, err, pretty)
				}
			}
		})
	}
}

// A relation that PocketBase leaves out because a rule hides it is refused: the answers were
// recorded while pages and countries were hidden.
func TestARelationThatPocketBaseHidesIsRefused(t *testing.T) {
	client := newClient(t, "file:"+filepath.Join("presets", "testdata", "pocketbase", "hidden"), func(o *options) { o.Preset = "pocketbase" })
	for _, r := range []shape.Resource{shape.Catalogue, shape.Rules} {
		if _, err := client.Fetch(t.Context(), r, Validators{}); err == nil || !strings.Contains(err.Error(), "is not expanded, or not permitted") {
			t.Errorf("%s: %v", r, err)
		}
	}
}

// The others answer with fewer records, or with none: recorded with rules for all of 20 artworks, for
// one, and for none.
func TestRecordsThatPocketBaseHidesAreALoss(t *testing.T) {
	recorded := filepath.Join("presets", "testdata", "pocketbase")
	fetch := func(artworks string) []byte {
		dir := t.TempDir()
		testkit.Must(t, os.CopyFS(dir, os.DirFS(filepath.Join(recorded, "full"))))
		text, err := os.ReadFile(filepath.Join(recorded, artworks, "catalogue.artwork.http"))
		testkit.Must(t, errors.Join(err, os.WriteFile(filepath.Join(dir, "catalogue.artwork.http"), text, 0o600)))
		return mustFetch(t, newClient(t, "file:"+dir, func(o *options) { o.Preset = "pocketbase" }), shape.Catalogue).Document.Body
	}
	for artworks, want := range map[string]shape.Loss{
		"few":  {Reason: "1 artwork, 20 before", Before: 20, Now: 1},
		"none": {Reason: "no artworks, 20 before", Before: 20, Lasting: true},
	} {
		if got := shape.Judge(shape.Catalogue, fetch("full"), fetch(artworks), 0.5); got == nil || *got != want {
			t.Errorf("%s: %+v, want %+v", artworks, got, want)
		}
	}
}
