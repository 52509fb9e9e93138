// Package lastgood keeps one document in a file, for a start with neither Redis nor a loader.
//
// [File.Save] writes a file under a temporary name, with a checksum, and renames it: after a crash
// the file is either the old or the new one. Only its owner can read it. [File.Load] reads it at
// the next start, and reports damage as [ErrDamaged]. [File.Clean] removes temporary files of
// crashed processes.
package lastgood

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A File is the place of a document.
type File struct{ path string }

// saving serializes the writers of one process, also those of a configuration that is replaced and of
// its successor: once a file is removed, no save that began before puts it back.
var saving sync.Mutex

// Document is the content of a file.
type Document struct {
	ETag                 string `json:"etag"`
	Source               string `json:"source"`
	UpstreamETag         string `json:"upstream_etag"`
	UpstreamLastModified string `json:"upstream_last_modified"`
	Suspicions           string `json:"suspicions,omitempty"`
	// FetchedAt, ChangedAt and StaleFrom, when its stale windows began or will, are Unix milliseconds.
	FetchedAt int64 `json:"fetched_at"`
	Age       int64 `json:"age,omitempty"` // at FetchedAt, in milliseconds
	ChangedAt int64 `json:"changed_at"`
	StaleFrom int64 `json:"stale_from"`
	// FreshUntil is what Redis had for that at the last poll, Run names the server process, and the
	// rest is where it was in its history of the document: see lease.Generation.
	FreshUntil int64  `json:"fresh_until"`
	Run        string `json:"run_id,omitempty"`
	Set        string `json:"set"`
	Seq        int64  `json:"seq"`
	Holds      int    `json:"holds"`
	AtETag     string `json:"at_etag,omitempty"`
	AtFetched  int64  `json:"at_fetched,omitempty"`
	// Body follows the rest.
	Body []byte `json:"-"`
}

// ErrDamaged is a file that differs from what was written.
var ErrDamaged = errors.New("the file is damaged")

// At is the file of the document called key, in a folder that exists.
func At(folder, key string) File {
	return File{filepath.Join(folder, key+".lastgood")}
}

// Path is where the file is.
func (f File) Path() string { return f.path }

// Save writes the file, unless ctx has ended when its turn comes: a writer that closes may not have
// noticed that the document was purged, and the file removed by its successor.
func (f File) Save(ctx context.Context, d *Document) error {
	head, err := json.Marshal(d)
	if err != nil {
		return err
	}
	content := append(append(head, '\n'), d.Body...)
	sum := sha256.Sum256(content)
	saving.Lock()
	defer saving.Unlock()
	if ctx.Err() != nil {
		return nil
	}
	temporary, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".*"+unfinished) // readable by its owner
	if err != nil {
		return err
	}
	err = write(temporary, append(hex.AppendEncode(nil, sum[:]), '\n'), content)
	if err == nil {
		err = os.Rename(temporary.Name(), f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return f.sync()
}

func write(file *os.File, pieces ...[]byte) (err error) {
	for _, p := range pieces {
		if err == nil {
			_, err = file.Write(p)
		}
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

const (
	// unfinished ends the name of a file that is being written.
	unfinished = ".new"
	// abandoned is how old such a file must be for its writer to have crashed.
	abandoned = time.Minute
)

// Clean removes what processes that crashed while they saved have left beside the file.
func (f File) Clean() error {
	beside, err := os.ReadDir(filepath.Dir(f.path))
	for _, entry := range beside {
		name := entry.Name()
		if !strings.HasPrefix(name, filepath.Base(f.path)+".") || !strings.HasSuffix(name, unfinished) {
			continue
		}
		if info, statErr := entry.Info(); statErr == nil && time.Since(info.ModTime()) > abandoned {
			err = errors.Join(err, os.Remove(filepath.Join(filepath.Dir(f.path), name)))
		}
	}
	return err
}

// sync makes the rename durable.
func (f File) sync() error {
	folder, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Load reads the file. Its error is fs.ErrNotExist if there is none, or [ErrDamaged].
func (f File) Load() (*Document, error) {
	content, err := read(f.path)
	if err != nil {
		return nil, err
	}
	sum, rest, _ := bytes.Cut(content, []byte("\n"))
	head, body, ok := bytes.Cut(rest, []byte("\n"))
	want := sha256.Sum256(rest)
	if !ok || hex.EncodeToString(want[:]) != string(sum) {
		return nil, fmt.Errorf("%s: %w", f.path, ErrDamaged)
	}
	d := &Document{Body: body}
	if err := json.Unmarshal(head, d); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", f.path, ErrDamaged, err)
	}
	return d, nil
}

// maxSize bounds a file: a larger one is not a document.
const maxSize = 512 << 20

// read reads a file. Opening does not wait for the writer of a pipe.
func read(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSize {
		return nil, fmt.Errorf("%s: %w: not a file of at most %d bytes", path, ErrDamaged, maxSize)
	}
	content := make([]byte, info.Size())
	if _, err := io.ReadFull(file, content); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrDamaged, err)
	}
	return content, nil
}

// Remove removes the file, if there is one.
func (f File) Remove() error {
	saving.Lock()
	defer saving.Unlock()
	err := os.Remove(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, f.sync())
}
