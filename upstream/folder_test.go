package upstream

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/config/source"
	"vitrine/upstream/shape"
)

// newFiles is a folder with the three documents.
func newFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "catalogue.json", `{"artist":[],"artwork":[],"gallery":[]}`)
	write(t, dir, "rules.json", `[]`)
	write(t, dir, "banners.json", `[{"id":"7","title_en":null}]`)
	return dir
}

func write(t *testing.T, dir, name, body string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600))
}

func TestEditIsSeenWithinTheSameSecond(t *testing.T) {
	dir := newFiles(t)
	client := newClient(t, "file:"+dir, nil)
	stamp := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	testkit.Must(t, os.Chtimes(filepath.Join(dir, "rules.json"), stamp, stamp))
	first := mustFetch(t, client, shape.Rules)
	write(t, dir, "rules.json", "\n\n")
	write(t, dir, "rules.json", `[{"id":1}]`)
	testkit.Must(t, os.Chtimes(filepath.Join(dir, "rules.json"), stamp, stamp))
	got, err := client.Fetch(t.Context(), shape.Rules, Held{Validators: first.Validators})
	if err != nil || got.NotModified || got.Document.Items != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if got.Validators.ETag == first.Validators.ETag {
		t.Errorf("validators %+v", got.Validators)
	}
}

func TestFolderFaultsAreNamed(t *testing.T) {
	dir := newFiles(t)
	client := newClient(t, "file:"+dir, func(o *options) { o.MaxBytes = 1000 })
	op := "fetch rules: read " + filepath.Join(dir, "rules.json") + ": "
	fetch := func() error {
		_, err := client.Fetch(t.Context(), shape.Rules, Held{})
		return err
	}
	remove := func() {
		t.Helper()
		testkit.Must(t, os.RemoveAll(filepath.Join(dir, "rules.json")))
	}

	write(t, dir, "rules.json", `{}`)
	err := fetch()
	wantError(t, err, ErrAnswer, "")
	wantRefused(t, err)

	write(t, dir, "rules.json", "["+strings.Repeat(" ", 999)+"]")
	wantError(t, fetch(), ErrAnswer, op+"the body is larger than 1000 bytes")

	remove()
	wantError(t, fetch(), ErrAnswer, op+"no such file or directory")

	testkit.Must(t, os.Mkdir(filepath.Join(dir, "rules.json"), 0o700))
	wantError(t, fetch(), ErrAnswer, op+"not a regular file")

	remove()
	testkit.Must(t, syscall.Mkfifo(filepath.Join(dir, "rules.json"), 0o600))
	wantError(t, fetch(), ErrAnswer, op+"not a regular file") // and it does not wait for a writer

	testkit.Must(t, os.RemoveAll(dir))
	wantError(t, fetch(), ErrUnreachable, op+"no such file or directory")
}

func TestFolderMayBeNamedRelatively(t *testing.T) {
	dir := newFiles(t)
	t.Chdir(filepath.Dir(dir))
	client := newClient(t, "file:"+filepath.Base(dir), nil)
	t.Chdir(t.TempDir()) // where the program stands later does not matter
	if got := mustFetch(t, client, shape.Banners); got.Document.Items != 1 {
		t.Errorf("%d items, want 1", got.Document.Items)
	}
}

func TestWhatIsForACMSDoesNotDisturbOtherSources(t *testing.T) {
	for _, url := range []string{"sample:", "file:" + newFiles(t)} {
		client := newClient(t, url, func(o *options) {
			o.Resources = map[shape.Resource]source.Resource{shape.Rules: {Parts: []source.Part{{Path: "api/rules?limit=-1"}}}}
			o.Authorization = "Bearer abc"
			o.Shared.Headers = map[string]string{"X-Site": "nl"}
		})
		first := mustFetch(t, client, shape.Rules)
		if again, err := client.Fetch(t.Context(), shape.Rules, Held{Validators: first.Validators}); err != nil || !again.NotModified {
			t.Errorf("%s: %+v, %v", url, again, err)
		}
	}
}
