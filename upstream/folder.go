package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"vitrine/upstream/sample"
	"vitrine/upstream/shape"
)

// folder is a source of files: one on disk, or the bundled sample.
type folder struct {
	files    fs.FS
	name     string // for people: "file:/srv/content", "sample:"
	prefix   string // of a file's name in errors
	maxBytes int64
	recipes  map[shape.Resource]*recipe
}

func newSample(o Options) (source, string, error) {
	if o.Preset != "drf" || len(o.Resources) > 0 {
		return nil, "", errors.New("upstream URL: the bundled content has the documented shapes; another preset, or parts, want the URL of a CMS or a folder")
	}
	o.Paths = nil
	recipes, err := newRecipes(o)
	if err != nil {
		return nil, "", err
	}
	s := &folder{files: sample.FS, name: "sample:", prefix: "sample:", maxBytes: o.MaxBytes, recipes: recipes}
	// The sample changes with the program: another release is another source.
	content := sha256.New()
	for _, r := range shape.Resources() {
		body, err := fs.ReadFile(sample.FS, fileName(r))
		if err != nil {
			return nil, "", fmt.Errorf("upstream sample: %w", err)
		}
		content.Write(body)
	}
	return s, fingerprint(o, s.name, hex.EncodeToString(content.Sum(nil))), nil
}

func newFolder(o Options) (source, string, error) {
	dir, err := folderPath(o.URL)
	if err != nil {
		return nil, "", err
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", fmt.Errorf("upstream URL: no folder %s", dir)
	case err != nil:
		return nil, "", fmt.Errorf("upstream URL: folder %s: %w", dir, bareFile(err))
	case !info.IsDir():
		return nil, "", fmt.Errorf("upstream URL: %s is not a folder", dir)
	}
	o.Paths = nil
	recipes, err := newRecipes(o)
	if err != nil {
		return nil, "", err
	}
	s := &folder{
		files: os.DirFS(dir), name: "file:" + dir, prefix: dir + string(filepath.Separator),
		maxBytes: o.MaxBytes, recipes: recipes,
	}
	return s, fingerprint(o, append([]string{s.name}, describeAll(recipes)...)...), nil
}

// folderPath reads file:DIR, file:/DIR and file:///DIR. The result is absolute,
// so that it says the same whatever becomes of the working directory.
func folderPath(raw string) (string, error) {
	dir := strings.TrimPrefix(raw, "file:")
	if strings.HasPrefix(dir, "//") {
		u, err := url.Parse(raw)
		if err != nil || u.Host != "" && u.Host != "localhost" {
			return "", errors.New("upstream URL: want file:DIR or file:///DIR")
		}
		dir = u.Path
	}
	if dir == "" {
		return "", errors.New("upstream URL: want file:DIR, got no folder")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("upstream URL: %w", err)
	}
	return dir, nil
}

func fileName(r shape.Resource) string { return string(r) + ".json" }

// savedName is the file of a saved answer: banners.json, catalogue.artist.json,
// and for the pages that follow catalogue.artist.2.json.
func savedName(want request) string {
	name := string(want.resource)
	if want.part != "" {
		name += "." + want.part
	}
	if want.page > 1 {
		name += "." + strconv.Itoa(want.page)
	}
	return name + ".json"
}

func (f *folder) fetch(ctx context.Context, r shape.Resource, held Validators) (answer, error) {
	return f.recipes[r].fetch(ctx, f, held)
}

// follow takes every link to lead to the next file.
func (*folder) follow(want request, _ string, _ []string) (*url.URL, error) {
	return &url.URL{RawQuery: "page=" + strconv.Itoa(want.page+1)}, nil
}

// exchange reads one saved answer. A file holds no version, so its ETag is a hash of
// its bytes, which sees every edit; its Last-Modified is for people, and for a
// copy that has nothing else.
func (f *folder) exchange(ctx context.Context, want request, held Validators) (answer, error) {
	r, name := want.resource, savedName(want)
	got := answer{op: "read " + f.prefix + name, attempts: 1, status: http.StatusOK}
	if ctx.Err() != nil {
		return got, &FetchError{Resource: r, Op: got.op, Kind: ErrTimeout, Err: &lateError{}}
	}
	body, info, err := f.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		if raw := strings.TrimSuffix(name, ".json") + ".http"; f.holds(raw) {
			return f.replay(r, raw, got)
		}
	}
	if err != nil {
		kind := ErrAnswer
		if _, gone := fs.Stat(f.files, "."); gone != nil {
			kind = ErrUnreachable
		}
		return got, &FetchError{Resource: r, Op: got.op, Kind: kind, Err: bareFile(err)}
	}
	sum := sha256.Sum256(body)
	got.validators.ETag = `"` + hex.EncodeToString(sum[:12]) + `"`
	if !info.ModTime().IsZero() {
		got.validators.LastModified = info.ModTime().UTC().Format(http.TimeFormat)
	}
	if held.ETag == got.validators.ETag ||
		held.ETag == "" && held.LastModified != "" && held.LastModified == got.validators.LastModified {
		got.notModified, got.status = true, http.StatusNotModified
		return got, nil
	}
	got.body = body
	return got, nil
}

func (f *folder) read(name string) ([]byte, fs.FileInfo, error) {
	// Asked before it is opened: opening a pipe would wait for its writer.
	info, err := fs.Stat(f.files, name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &ContentError{Reason: "not a regular file"}
	}
	if info.Size() > f.maxBytes {
		return nil, nil, tooLarge(f.maxBytes)
	}
	file, err := f.files.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	body, err := io.ReadAll(&capped{in: file, left: f.maxBytes, limit: f.maxBytes})
	return body, info, err
}

// bareFile takes off the operation and name that FetchError says already.
func bareFile(err error) error {
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		return wrapped.Err
	}
	return err
}

func (f *folder) String() string { return f.name }

func (*folder) close() {}
