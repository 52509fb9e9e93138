// Package lastgood keeps one document in a file, for a start with neither Redis nor a loader.
//
// A file is written beside its place and renamed, so that after a crash it is either the old or the
// new one, and has a checksum, so that damage is noticed. Only its owner can read it.
package lastgood

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// A File is the place of a document.
type File struct{ path string }

// Document is the content of a file.
type Document struct {
	ETag                 string `json:"etag"`
	Source               string `json:"source"`
	UpstreamETag         string `json:"upstream_etag"`
	UpstreamLastModified string `json:"upstream_last_modified"`
	// FetchedAt and ChangedAt are Unix milliseconds.
	FetchedAt int64 `json:"fetched_at"`
	ChangedAt int64 `json:"changed_at"`
	// Dataset and Run name the Redis that held it.
	Dataset string `json:"dataset"`
	Run     string `json:"run"`
	// Body follows the rest.
	Body []byte `json:"-"`
}

// ErrDamaged is a file that differs from what was written.
var ErrDamaged = errors.New("the file is damaged")

// At is the file of the document called key, in a folder that exists.
func At(folder, key string) File { return File{filepath.Join(folder, key+".lastgood")} }

// Path is where the file is.
func (f File) Path() string { return f.path }

// saving serializes the writers of one process, since a file has one temporary name.
var saving sync.Mutex

// Save writes the file.
func (f File) Save(d *Document) error {
	head, err := json.Marshal(d)
	if err != nil {
		return err
	}
	content := append(append(head, '\n'), d.Body...)
	sum := sha256.Sum256(content)
	saving.Lock()
	defer saving.Unlock()
	temporary := f.path + ".new"
	if err := write(temporary, append(hex.AppendEncode(nil, sum[:]), '\n'), content); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, f.path); err != nil {
		return err
	}
	return f.sync()
}

func write(path string, pieces ...[]byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
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
	content, err := os.ReadFile(f.path)
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
