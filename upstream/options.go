package upstream

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vitrine/config/source"
	"vitrine/upstream/exchange"
	"vitrine/upstream/list"
	"vitrine/upstream/sample"
	"vitrine/upstream/sanitize"
	"vitrine/upstream/shape"
)

// What an option that is zero means.
const (
	defaultRetryWait    = 200 * time.Millisecond
	defaultMaxRetryWait = 2 * time.Second
)

// Options say where the content comes from and what may be spent on getting it.
type Options struct {
	// URL is "sample:" for the bundled content, "file:DIR" for a folder with catalogue.json,
	// rules.json and banners.json, or the base URL of a CMS, http or https, with or without a path
	// or a trailing slash. It is required, and holds no user, query or fragment.
	URL string
	// Timeout bounds one Fetch as a whole, its retries and waits included. It is required.
	Timeout time.Duration
	// MaxBytes is the largest answer for one resource, counted on the wire and again after
	// decompression. It is required.
	MaxBytes int64
	// Resources say how each resource is asked for and mapped; all are required.
	Resources map[shape.Resource]source.Resource
	// Place says where a key of Resources and Shared is written, FILE:LINE; nil says nothing.
	Place func(key string) string
	// Shared is what all parts have in common.
	Shared source.Shared
	// Options are those of each request. Headers and Query follow from Shared.
	exchange.Options
}

// New makes a client. It reaches for no CMS, but a folder has to be there. Its errors name the
// option, and no credential; a mistake in Resources or Shared is a *list.Error or a
// *mapping.ProgramError.
func New(o Options) (*Client, error) {
	o = o.withDefaults()
	c := &Client{timeout: o.Timeout, log: o.Logger}
	var err error
	if c.recipes, err = recipes(o); err != nil {
		return nil, err
	}
	from, err := c.open(o)
	if err != nil {
		return nil, fmt.Errorf("upstream URL: %w", err)
	}
	c.fingerprint = fingerprint(o, from, c.recipes)
	c.breaker = newBreaker(c.String(), o.Logger)
	return c, nil
}

// open finds out where the content comes from, and returns what that adds to the fingerprint.
func (c *Client) open(o Options) (from string, err error) {
	options := o.Options
	options.Headers, options.Query, options.Secrets = o.Shared.Headers, o.Shared.Query, o.Shared.Secrets
	options.RetryAfter.Name, options.RetryAfter.Unit = o.Shared.RetryAfter.Header, o.Shared.RetryAfter.Unit
	switch {
	case o.URL == "":
		return "", errors.New("missing; want sample:, file:DIR, http://… or https://…")
	case o.URL == "sample:":
		if o.Shared.Map != "" || slices.ContainsFunc(slices.Collect(maps.Values(o.Resources)), changes) {
			return "", errors.New("the bundled content has the documented shapes; another preset, or parts, want the URL of a CMS or a folder")
		}
		c.cms = exchange.NewFolder(sample.FS, "sample:", "sample:", o.MaxBytes, options)
		return sampleFingerprint()
	case strings.HasPrefix(o.URL, "file:"):
		dir, err := folderPath(o.URL)
		if err != nil {
			return "", err
		}
		c.cms = exchange.NewFolder(os.DirFS(dir), "file:"+dir, dir+string(filepath.Separator), o.MaxBytes, options)
		return "file:" + dir, nil
	}
	base, err := exchange.ParseBase(o.URL)
	if err != nil {
		return "", err
	}
	c.cms = exchange.New(base, options)
	return strings.TrimRight(base.String(), "/"), nil
}

// changes reports whether a resource is anything but one response as it is.
func changes(r source.Resource) bool {
	return r.Map != "" || slices.ContainsFunc(r.Parts, func(p source.Part) bool { return p.Name != "" || p.Map != "" })
}

// recipes compiles what is said about the resources.
func recipes(o Options) (map[shape.Resource]*list.Recipe, error) {
	all := make(map[shape.Resource]*list.Recipe)
	for r := range o.Resources {
		if !r.Valid() {
			return nil, &list.Error{Key: "upstream.resources." + string(r), Err: errors.New("there is no such resource")}
		}
	}
	for _, r := range shape.Resources() {
		var err error
		if all[r], err = list.New(r, o.Resources[r], o.Shared, o.MaxBytes, o.Place); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// withDefaults returns o with every zero value replaced by its meaning.
func (o Options) withDefaults() Options {
	o.RetryWait = cmp.Or(o.RetryWait, defaultRetryWait)
	o.MaxRetryWait = cmp.Or(o.MaxRetryWait, max(defaultMaxRetryWait, o.RetryWait))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// folderPath reads file:DIR, file:/DIR and file:///DIR, and looks whether the folder is there. The
// result is absolute, so that it means the same whatever becomes of the working directory.
func folderPath(raw string) (string, error) {
	dir := strings.TrimPrefix(raw, "file:")
	if strings.HasPrefix(dir, "//") {
		u, err := url.Parse(raw)
		if err != nil || u.Host != "" && u.Host != "localhost" {
			return "", errors.New("want file:DIR or file:///DIR")
		}
		dir = u.Path
	}
	if dir == "" {
		return "", errors.New("want file:DIR, got no folder")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("no folder %s", dir)
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("%s is not a folder", dir)
	}
	return dir, nil
}

// normalizing is part of every fingerprint, as the fields of the documents are: raise it when
// Normalize begins to make something else of the same answer.
const normalizing = "2"

// fingerprint hashes what decides which document comes out: where from, how it is mapped, and what
// is sent. Secrets do not count, so that they cannot be guessed from it.
func fingerprint(o Options, from string, recipes map[shape.Resource]*list.Recipe) string {
	s := o.Shared
	decides := []any{normalizing, shape.Types(), from, s.Headers, s.Query, s.Def, s.Media, s.Draft, s.Map, s.Ignore, s.Relations}
	for _, r := range shape.Resources() {
		decides = append(decides, recipes[r].Describe()...)
	}
	text, _ := json.Marshal(decides) // bodies were tried when they were read
	sum := sha256.Sum256([]byte(sanitize.Mask(string(text), o.Shared.Secrets...)))
	return hex.EncodeToString(sum[:6])
}

// sampleFingerprint changes with the bundled content: that of another release is another source.
func sampleFingerprint() (string, error) {
	h := sha256.New()
	for _, r := range shape.Resources() {
		body, err := fs.ReadFile(sample.FS, string(r)+".json")
		if err != nil {
			return "", err
		}
		h.Write(body)
	}
	return "sample:" + hex.EncodeToString(h.Sum(nil)), nil
}
