package sample

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"vitrine/upstream/shape"
)

// stamp is the documented form of a timestamp.
const stamp = "2006-01-02T15:04:05.000000Z"

// Options say how the CMS that [Handler] stands in for behaves.
type Options struct {
	// Delay is how long every document takes, since a real CMS is slow. Zero is no delay.
	Delay time.Duration
	// Live makes every document that is sent a new version: the updated_at of its first item (of
	// the first address in the catalogue) becomes the time of sending, and the ETag changes with
	// it. A conditional request still gets a 304; one without validators, as vitrine's after a
	// purge, gets a new version. False always sends the same.
	Live bool
}

// Handler serves the sample as the CMS does, following Django REST Framework's conventions: 405 and
// OPTIONS with Allow, Vary: Accept, an ETag and 304, a redirect to the trailing slash, Django's
// page for an unknown path. /healthz answers 200.
func Handler(o Options) http.Handler {
	views := make(map[string]*view)
	for _, v := range []*view{
		{resource: shape.Catalogue, path: "/gvapp/", name: "Catalogue Summary List", description: "Artists, artworks and galleries."},
		{resource: shape.Rules, path: "/cms/rules/", name: "Rule List"},
		{resource: shape.Banners, path: "/gvapp/singlebanner", name: "Single Banner List"},
	} {
		v.options = o
		v.load()
		views[v.path] = v
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		path := req.URL.Path
		switch {
		case path == "/healthz":
			send(w, req, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
		case views[path] != nil:
			views[path].ServeHTTP(w, req)
		case views[path+"/"] != nil:
			appendSlash(w, req)
		default:
			send(w, req, http.StatusNotFound, "text/html", []byte(notFound))
		}
	})
}

// view is a resource of the CMS.
type view struct {
	options           Options
	resource          shape.Resource
	path              string
	name, description string
	updatedAt         int // where in body its first item's updated_at begins

	mu   sync.Mutex // guards the fields below
	body []byte     // compact; changed only by renew
	last time.Time  // of the latest renew
}

// load reads the bundled file, which is indented for readability. This package's tests check that
// it is valid.
func (v *view) load() {
	file, err := FS.ReadFile(string(v.resource) + ".json")
	if err != nil {
		panic(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, file); err != nil {
		panic(fmt.Sprintf("sample %s: %v", v.resource, err))
	}
	v.body = compact.Bytes()
	v.updatedAt = v.find()
}

// find returns where the timestamp that Live changes begins. In an address updated_at comes before
// the city, which has another, so in a catalogue it is the first; in the arrays it is the last of
// the first item.
func (v *view) find() int {
	const field = `"updated_at":"`
	if v.resource == shape.Catalogue {
		return bytes.Index(v.body, []byte(field)) + len(field)
	}
	items := json.NewDecoder(bytes.NewReader(v.body))
	var first json.RawMessage
	if _, err := items.Token(); err != nil { // the array's bracket
		panic(err)
	}
	if err := items.Decode(&first); err != nil {
		panic(err)
	}
	return bytes.LastIndex(v.body[:items.InputOffset()], []byte(field)) + len(field)
}

func (v *view) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Vary", "Accept")
	w.Header().Set("Allow", "GET, HEAD, OPTIONS")
	switch req.Method {
	case http.MethodGet, http.MethodHead:
		v.get(w, req)
	case http.MethodOptions:
		v.describe(w, req)
	default:
		sendJSON(w, req, http.StatusMethodNotAllowed, map[string]string{
			"detail": fmt.Sprintf("Method %q not allowed.", req.Method),
		})
	}
}

func (v *view) get(w http.ResponseWriter, req *http.Request) {
	if v.options.Delay > 0 {
		timer := time.NewTimer(v.options.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
			return
		}
	}
	body, etag, held := v.current(req)
	w.Header().Set("ETag", etag)
	if held {
		w.Header().Del("Allow") // a 304 from Django has few headers
		w.WriteHeader(http.StatusNotModified)
		return
	}
	send(w, req, http.StatusOK, "application/json", body)
}

// current returns the version to answer req with, and whether the client already has it.
func (v *view) current(req *http.Request) (body []byte, etag string, held bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known := req.Header.Get("If-None-Match"); known == "*" || strings.Contains(known, etagOf(v.body)) {
		return nil, etagOf(v.body), true
	}
	if v.options.Live && req.Method == http.MethodGet {
		v.renew(time.Now())
	}
	return v.body, etagOf(v.body), false
}

// renew makes a new version, as of now. Versions being sent do not change.
func (v *view) renew(now time.Time) {
	now = now.Truncate(time.Microsecond)
	if !now.After(v.last) {
		now = v.last.Add(time.Microsecond)
	}
	v.last = now
	v.body = bytes.Clone(v.body)
	copy(v.body[v.updatedAt:], now.UTC().Format(stamp))
}

func (v *view) describe(w http.ResponseWriter, req *http.Request) {
	sendJSON(w, req, http.StatusOK, struct {
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Renders     []string `json:"renders"`
		Parses      []string `json:"parses"`
	}{
		Name:        v.name,
		Description: v.description,
		Renders:     []string{"application/json"},
		Parses:      []string{"application/json", "application/x-www-form-urlencoded", "multipart/form-data"},
	})
}

func etagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// appendSlash is Django's APPEND_SLASH: relative, with the query, for every method.
func appendSlash(w http.ResponseWriter, req *http.Request) {
	location := req.URL.EscapedPath() + "/"
	if req.URL.RawQuery != "" {
		location += "?" + req.URL.RawQuery
	}
	w.Header().Set("Location", location)
	send(w, req, http.StatusMovedPermanently, "text/html; charset=utf-8", nil)
}

func sendJSON(w http.ResponseWriter, req *http.Request, code int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // of strings only
	}
	send(w, req, code, "application/json", body)
}

func send(w http.ResponseWriter, req *http.Request, code int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	if req.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may be gone
	}
}

const notFound = `
<!doctype html>
<html lang="en">
<head>
  <title>Not Found</title>
</head>
<body>
  <h1>Not Found</h1><p>The requested resource was not found on this server.</p>
</body>
</html>
`
