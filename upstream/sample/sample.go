// Package sample is the bundled content: invented galleries, artists, artworks, rules and banners
// of the Netherlands and Belgium, in the documented shape.
//
// vitrine serves it from [FS] if no CMS is configured. [Handler] serves the same content over HTTP
// as a CMS does, for demos and the compose stack.
package sample

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"vitrine/upstream/shape"
)

// FS holds a file for each resource: catalogue.json, rules.json and banners.json.
//
//go:embed *.json
var FS embed.FS

// stamp is the documented form of a timestamp.
const stamp = "2006-01-02T15:04:05.000000Z"

// Options say how the CMS that [Handler] stands in for behaves.
type Options struct {
	// Delay is how long every document takes, since a real CMS is slow. Zero is no delay.
	Delay time.Duration
	// Live makes every document that is sent a new version: the first updated_at in it becomes the
	// time of sending, and the ETag changes with it. A request with the validator of the latest
	// version still gets a 304; one without, as vitrine's after a purge, gets a new version. False
	// always sends the same.
	Live bool
}

// Handler serves the sample as the CMS does, following Django REST Framework's conventions: 405
// with Allow, Vary: Accept, an ETag and 304, a redirect to the trailing slash. /healthz answers
// 200.
func Handler(o Options) http.Handler {
	views := map[string]*view{}
	for _, r := range shape.Resources() {
		views[r.Route()] = &view{options: o, body: bundled(r)}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		path := req.URL.Path
		switch {
		case path == "/healthz":
			_, _ = io.WriteString(w, "ok\n") // the client may be gone
		case views[path] != nil:
			views[path].ServeHTTP(w, req)
		case views[path+"/"] != nil: // Django's APPEND_SLASH
			http.Redirect(w, req, (&url.URL{Path: path + "/", RawQuery: req.URL.RawQuery}).String(), http.StatusMovedPermanently)
		default:
			http.NotFound(w, req)
		}
	})
}

// view is a resource of the CMS.
type view struct {
	options Options

	mu   sync.Mutex // guards the fields below
	body []byte     // changed only by current
	last time.Time  // of the latest version
}

// bundled is a bundled file, which is indented for readability, in compact form. This package's
// tests check that it is valid.
func bundled(r shape.Resource) []byte {
	file, err := FS.ReadFile(string(r) + ".json")
	var compact bytes.Buffer
	if err = errors.Join(err, json.Compact(&compact, file)); err != nil {
		panic(fmt.Sprintf("sample %s: %v", r, err))
	}
	return compact.Bytes()
}

func (v *view) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Vary", "Accept")
	w.Header().Set("Allow", "GET, HEAD, OPTIONS")
	switch req.Method {
	case http.MethodGet, http.MethodHead:
		select {
		case <-time.After(v.options.Delay):
		case <-req.Context().Done():
			return
		}
		body := v.current(req)
		w.Header().Set("ETag", etagOf(body))
		w.Header().Set("Content-Type", "application/json")
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(body))
	case http.MethodOptions:
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = fmt.Fprintf(w, `{"detail":"Method \"%s\" not allowed."}`, req.Method) //nolint:gosec // a token; the client may be gone
	}
}

// current returns the version to answer req with: a new one, as of now, if documents are Live and
// the client does not have the latest. Versions being sent do not change.
func (v *view) current(req *http.Request) []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	held := strings.Contains(req.Header.Get("If-None-Match"), etagOf(v.body))
	if v.options.Live && req.Method == http.MethodGet && !held {
		now := time.Now().Truncate(time.Microsecond)
		if !now.After(v.last) {
			now = v.last.Add(time.Microsecond)
		}
		v.last, v.body = now, bytes.Clone(v.body)
		const field = `"updated_at":"`
		copy(v.body[bytes.Index(v.body, []byte(field))+len(field):], now.UTC().Format(stamp))
	}
	return v.body
}

func etagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}
