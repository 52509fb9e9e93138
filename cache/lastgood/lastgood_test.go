package lastgood

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vitrine/cmd/testkit"
)

func document(body string) *Document {
	return &Document{
		ETag: `"x"`, Source: "s", UpstreamETag: `W/"u"`, UpstreamLastModified: "yesterday",
		FetchedAt: 1, ChangedAt: 2, Set: "s", Seq: 3, Holds: 3, Body: []byte(body),
	}
}

func TestADocumentIsReadAsItWasWrittenAndPrivate(t *testing.T) {
	folder := t.TempDir()
	f := At(folder, "banners")
	if _, err := f.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing was written: %v", err)
	}
	for _, body := range []string{"[]", "[\n1\n]\n", ""} {
		testkit.Must(t, f.Save(t.Context(), document(body)))
		got, err := f.Load()
		testkit.Must(t, err)
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
		testkit.Check(t, f.Remove())
	}
	if _, err := f.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after removing: %v", err)
	}
	if err := At(folder+"/nowhere", "banners").Save(t.Context(), document("[]")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

// writerFolder tells a process of this test where to save, again and again.
const writerFolder = "LASTGOOD_TEST_FOLDER"

func TestMain(m *testing.M) {
	folder := os.Getenv(writerFolder)
	if folder == "" {
		os.Exit(m.Run())
	}
	for n := range 50 {
		if err := At(folder, "banners").Save(context.Background(), document(strings.Repeat("x", n<<13))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// Processes that share a folder, as during an upgrade, do not write into each other's files.
func TestProcessesCanShareAFolder(t *testing.T) {
	folder := t.TempDir()
	var writers []*exec.Cmd
	for range 3 {
		w := exec.Command(os.Args[0])
		w.Env, w.Stderr = append(os.Environ(), writerFolder+"="+folder), t.Output()
		testkit.Must(t, w.Start())
		writers = append(writers, w)
	}
	var reading atomic.Bool
	reading.Store(true)
	var reader sync.WaitGroup
	reader.Go(func() {
		for reading.Load() {
			if _, err := At(folder, "banners").Load(); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
				return
			}
		}
	})
	for _, w := range writers {
		testkit.Check(t, w.Wait())
	}
	reading.Store(false)
	reader.Wait()
	if files, err := os.ReadDir(folder); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

// A writer whose successor has removed the file meanwhile does not put it back.
func TestASaveWhoseTurnComesTooLateWritesNothing(t *testing.T) {
	f := At(t.TempDir(), "banners")
	ctx, cancel := context.WithCancel(t.Context())
	saving.Lock()
	saved := make(chan error, 1)
	go func() { saved <- f.Save(ctx, document("[]")) }()
	cancel()
	saving.Unlock()
	testkit.Must(t, testkit.Receive(t, saved))
	if _, err := f.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was written: %v", err)
	}
}

// What a crash has left is removed; what another process is writing, or keeps, is not.
func TestCleanRemovesWhatACrashHasLeft(t *testing.T) {
	folder := t.TempDir()
	for name, age := range map[string]time.Duration{
		"banners.lastgood": time.Hour, "banners.lastgood.1.new": time.Hour, "banners.lastgood.2.new": 0, "rules.lastgood.3.new": time.Hour,
	} {
		path := filepath.Join(folder, name)
		testkit.Must(t, os.WriteFile(path, nil, 0o600))
		testkit.Must(t, os.Chtimes(path, time.Time{}, time.Now().Add(-age)))
	}
	testkit.Check(t, At(folder, "banners").Clean())
	var names []string
	files, err := os.ReadDir(folder)
	testkit.Must(t, err)
	for _, file := range files {
		names = append(names, file.Name())
	}
	if diff := cmp.Diff([]string{"banners.lastgood", "banners.lastgood.2.new", "rules.lastgood.3.new"}, names); diff != "" {
		t.Error(diff)
	}
}

// Whatever a crash or a disk makes of a file is not taken for a document.
func TestADamagedFileIsNoticed(t *testing.T) {
	f := At(t.TempDir(), "banners")
	testkit.Must(t, f.Save(t.Context(), document("[1,2,3]")))
	whole, err := os.ReadFile(f.Path())
	testkit.Must(t, err)
	for i := range whole {
		for name, content := range map[string][]byte{
			"cut short": whole[:i],
			"changed":   append(append(bytes.Clone(whole[:i]), whole[i]^1), whole[i+1:]...),
		} {
			testkit.Must(t, os.WriteFile(f.Path(), content, 0o600))
			if d, err := f.Load(); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%s at byte %d: %+v, %v", name, i, d, err)
			}
		}
	}
}

// TestWhatIsNotAFileIsNeitherReadNorWrittenTo has pipes, links and holes in the place of
// the document.
func TestWhatIsNotAFileIsNeitherReadNorWrittenTo(t *testing.T) {
	folder := t.TempDir()
	elsewhere := filepath.Join(folder, "elsewhere")
	for name, put := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"a link":   func(path string) error { return os.Symlink(elsewhere, path) },
		"no end":   func(path string) error { return os.Symlink("/dev/zero", path) },
		"a hole of 100 GB": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 100<<30))
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Must(t, os.WriteFile(elsewhere, []byte("mine"), 0o600))
			f := At(folder, "banners")
			testkit.Must(t, put(f.Path()))
			if d, err := f.Load(); !errors.Is(err, ErrDamaged) {
				t.Errorf("%v, %v", d, err)
			}
			if name == "a folder" {
				_ = os.Remove(f.Path()) // which nothing can be renamed to
			}
			testkit.Check(t, f.Save(t.Context(), document("[]")))
			if _, err := f.Load(); err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(elsewhere); err != nil || string(text) != "mine" {
				t.Errorf("it was written to: %q, %v", text, err)
			}
			testkit.Check(t, f.Remove())
		})
	}
}

// FuzzLoad: any content of the file is the document that was written, or damaged.
func FuzzLoad(f *testing.F) {
	place := At(f.TempDir(), "banners")
	for _, body := range []string{"[]", "", "[\n1\n]\n"} {
		testkit.Must(f, place.Save(f.Context(), document(body)))
		content, err := os.ReadFile(place.Path())
		testkit.Must(f, err)
		f.Add(content)
	}
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		place := At(t.TempDir(), "banners")
		testkit.Must(t, os.WriteFile(place.Path(), content, 0o600))
		d, err := place.Load()
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		testkit.Must(t, place.Save(t.Context(), d))
		again, err := place.Load()
		if diff := cmp.Diff(d, again); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
	})
}
