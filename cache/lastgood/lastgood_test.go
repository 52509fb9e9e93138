package lastgood

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func document(body string) *Document {
	return &Document{
		ETag: `"x"`, Source: "s", UpstreamETag: `W/"u"`, UpstreamLastModified: "yesterday",
		FetchedAt: 1, ChangedAt: 2, Dataset: "d", Run: "r", Body: []byte(body),
	}
}

func TestADocumentIsReadAsItWasWrittenAndPrivate(t *testing.T) {
	folder := t.TempDir()
	f := At(folder, "banners")
	if _, err := f.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing was written: %v", err)
	}
	for _, body := range []string{"[]", "[\n1\n]\n", ""} {
		if err := f.Save(document(body)); err != nil {
			t.Fatal(err)
		}
		got, err := f.Load()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(document(body), got); diff != "" {
			t.Error(diff)
		}
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if info, err := files[0].Info(); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for range 2 {
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
	}
	if _, err := f.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after removing: %v", err)
	}
}

// Whatever a crash or a disk makes of a file is not taken for a document.
func TestADamagedFileIsNoticed(t *testing.T) {
	f := At(t.TempDir(), "banners")
	if err := f.Save(document("[1,2,3]")); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		for name, content := range map[string][]byte{
			"cut short": whole[:i],
			"changed":   append(append(bytes.Clone(whole[:i]), whole[i]^1), whole[i+1:]...),
		} {
			if err := os.WriteFile(f.Path(), content, 0o600); err != nil {
				t.Fatal(err)
			}
			if d, err := f.Load(); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%s at byte %d: %+v, %v", name, i, d, err)
			}
		}
	}
}

func TestAFolderThatCannotBeWrittenIsAnError(t *testing.T) {
	f := At(t.TempDir()+"/nowhere", "banners")
	if err := f.Save(document("[]")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
