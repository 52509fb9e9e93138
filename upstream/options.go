package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"vitrine/upstream/shape"
)

// What an option that is zero means.
const (
	defaultTimeout      = 10 * time.Second
	defaultMaxBytes     = 32 << 20
	defaultRetryWait    = 200 * time.Millisecond
	defaultMaxRetryWait = 2 * time.Second
)

// Options say where the content comes from and what may be spent on getting it.
type Options struct {
	// URL is "sample:" for the bundled content, "file:DIR" for a folder with
	// catalogue.json, rules.json and banners.json, or the base URL of a CMS,
	// http or https, with or without a path or a trailing slash. It is required,
	// and holds no user, query or fragment.
	URL string
	// Authorization is the value of the Authorization header, "Bearer …". It is
	// sent to the host of URL only and never logged. Empty sends none. The
	// sources that are not HTTP do not look at it.
	Authorization string
	// Timeout bounds one Fetch as a whole, its retries and waits included. Zero means 10s.
	Timeout time.Duration
	// Retries is how often a failed attempt may be made again. Zero means never.
	Retries int
	// RetryWait is the wait before the first retry. It doubles with each
	// further one up to MaxRetryWait, and up to half of it is taken off at
	// random. Zero means 200ms and 2s. A Retry-After of the CMS may ask for more.
	RetryWait, MaxRetryWait time.Duration
	// MaxBytes is the largest answer for one resource, counted on the wire and
	// again after decompression. Zero means 32 MiB.
	MaxBytes int64
	// Paths are relative to URL, and may end in a query. A resource that is
	// missing has its documented path (gvapp/, cms/rules/, gvapp/singlebanner).
	// Like Headers they are for HTTP: the files of the other sources have their
	// fixed names.
	Paths map[shape.Resource]string
	// Preset names the conventions of the CMS: one of [Presets]. Empty means "drf".
	Preset string
	// Resources say how each resource is asked for and mapped. A resource that is
	// missing, or has no parts, is what the preset makes of it, at Paths if that has it.
	Resources map[shape.Resource]ResourceOptions
	// Headers are sent with every request, for what a CMS wants beyond
	// Authorization. Nil sends none.
	Headers map[string]string
	// Logger is told of retries. Nil discards.
	Logger *slog.Logger
	// Tracer makes the spans of fetches. Nil makes none.
	Tracer trace.Tracer
}

// reserved are the headers that the client itself must have in hand.
var reserved = []string{
	"Accept-Encoding", "Authorization", "Connection", "Content-Length", "Host",
	"If-Modified-Since", "If-None-Match", "If-Range", "Range", "Transfer-Encoding",
}

// withDefaults returns o with every zero value replaced by its meaning, or says what is wrong with it.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Timeout < 0:
		return o, fmt.Errorf("upstream timeout: want a duration above 0, got %v", o.Timeout)
	case o.Retries < 0:
		return o, fmt.Errorf("upstream retries: want 0 or more, got %d", o.Retries)
	case o.MaxBytes < 0:
		return o, fmt.Errorf("upstream max bytes: want a size above 0, got %d", o.MaxBytes)
	case o.RetryWait < 0 || o.MaxRetryWait < 0:
		return o, fmt.Errorf("upstream retry wait: want durations above 0, got %v to %v", o.RetryWait, o.MaxRetryWait)
	case !isHeaderValue(o.Authorization):
		return o, errors.New("upstream authorization: holds a control character, perhaps the newline at the end of a file")
	}
	if err := checkHeaders(o.Headers); err != nil {
		return o, err
	}
	for r, p := range o.Paths {
		if !r.Valid() {
			return o, fmt.Errorf("upstream path: no resource %q", r)
		}
		if err := checkPath(p); err != nil {
			return o, fmt.Errorf("upstream path of %s: %w", r, err)
		}
	}
	setDefault(&o.Preset, "drf")
	o.Paths = maps.Clone(o.Paths)
	o.Headers = maps.Clone(o.Headers)
	setDefault(&o.Timeout, defaultTimeout)
	setDefault(&o.MaxBytes, defaultMaxBytes)
	setDefault(&o.RetryWait, defaultRetryWait)
	setDefault(&o.MaxRetryWait, max(defaultMaxRetryWait, o.RetryWait))
	if o.RetryWait > o.MaxRetryWait {
		return o, fmt.Errorf("upstream retry wait: the least, %v, is above the most, %v", o.RetryWait, o.MaxRetryWait)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer(scope)
	}
	return o, nil
}

// checkHeaders refuses headers that cannot be sent, or must not be set.
func checkHeaders(headers map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		switch {
		case !isToken(name):
			return fmt.Errorf("upstream header %q: not a header name", name)
		case slices.ContainsFunc(reserved, func(r string) bool { return strings.EqualFold(r, name) }):
			return fmt.Errorf("upstream header %q: not to be set here", name)
		case !isHeaderValue(headers[name]):
			return fmt.Errorf("upstream header %q: its value holds a control character", name)
		}
	}
	return nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// parseBase reads the base URL of a CMS. Its errors never repeat the URL, which
// may hold a password just where it should not.
func parseBase(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("upstream URL: not a URL")
	}
	switch {
	case u.User != nil:
		return nil, errors.New("upstream URL: a user or password in it is not allowed; put them into the upstream authorization setting (VITRINE_UPSTREAM_AUTHORIZATION)")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("upstream URL: want sample:, file:DIR, http://… or https://…")
	case u.Hostname() == "":
		return nil, fmt.Errorf("upstream URL: no host after %s://", u.Scheme)
	case u.RawQuery != "" || u.ForceQuery:
		return nil, errors.New("upstream URL: a query is not allowed; it belongs to the path of a resource")
	case strings.Contains(raw, "#"):
		return nil, errors.New("upstream URL: a fragment is not allowed")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return nil, fmt.Errorf("upstream URL: want a port from 1 to 65535, got %s", p)
		}
	}
	u.Host = strings.ToLower(u.Host)
	return u, nil
}

// checkPath refuses what would leave the base URL.
func checkPath(p string) error {
	u, err := url.Parse(p)
	switch {
	case err != nil:
		return errors.New("not a path")
	case u.Scheme != "" || u.Host != "" || u.User != nil:
		return errors.New("want a path relative to the upstream URL, got a URL")
	case strings.Contains(p, "#"):
		return errors.New("a fragment is not allowed")
	case slices.Contains(strings.Split(u.Path, "/"), ".."):
		return errors.New("a path with .. would lead out of the upstream URL")
	}
	return nil
}

// resolve joins a checked path, with its query, to base.
func resolve(base *url.URL, p string) *url.URL {
	rel, err := url.Parse(p)
	if err != nil {
		panic("upstream: path was not checked: " + p)
	}
	u := base.JoinPath(rel.EscapedPath())
	u.RawQuery = rel.RawQuery
	return u
}

// normalizing is part of every fingerprint: raise it when Normalize begins to
// make something else of the same answer.
const normalizing = "1"

// fingerprint hashes what decides which document comes out: where from, and
// which headers are sent. It takes the names of the headers, not their values,
// and no Authorization, so that nothing secret can be guessed from it.
func fingerprint(o Options, from ...string) string {
	h := sha256.New()
	for _, part := range append([]string{normalizing}, from...) {
		h.Write(strconv.AppendQuote(nil, part))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		h.Write(strconv.AppendQuote([]byte("header "), strings.ToLower(name)))
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// isHeaderValue reports whether s can be sent as one: no control characters but the tab.
func isHeaderValue(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		return !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}
