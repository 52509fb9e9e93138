package exchange

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"vitrine/upstream/sanitize"
)

const (
	// maxEnvelope is how much is read of a response without a document, for its error code, and the
	// longest member that is looked into for one.
	maxEnvelope = 64 << 10
	// maxMembers is how many members of an object are looked at: no known error has as many.
	maxMembers = 100
)

// read fills e from the response's body. credentials says whether the request had some. Of the body
// only the CMS's error code is kept, and only if it is a single word.
func (e *StatusError) read(resp *http.Response, credentials bool) {
	media, _ := mediaType(resp.Header)
	e.HTML = isHTML(media)
	if isJSON(media) {
		said, _ := readEnvelope(beginning(resp), true)
		e.Name, e.Said = said.name, sanitize.Clip(said.message, 300)
		// With its database down, Strapi answers 401 to every request without a token (with one,
		// 500), as it does for a wrong token. Without permission it answers 403, so without a token
		// a 401 is an outage.
		e.Outage = e.Code == http.StatusUnauthorized && !credentials && said.of == strapi
	}
	e.Refused = credentials && (e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden)
}

// beginning is that of the body of a response without a document, decompressed, as far as it can be
// read: it adds to a failure that is known already.
func beginning(resp *http.Response) []byte {
	in := unpacked(io.LimitReader(resp.Body, maxEnvelope), maxEnvelope, maxEnvelope)
	body, _ := io.ReadAll(io.LimitReader(in, maxEnvelope)) // what came before an error
	return body
}

// An envelope is a CMS's error in JSON.
type envelope struct {
	of      string // who writes it
	name    string // its error code, or empty
	message string // what it says, or empty
}

// A form is how some CMS writes an error: paths of members in the response's object, and numbers in
// its lists.
type form struct {
	of      string
	failed  string   // has content that is not a success
	beside  string   // is a member too
	unless  string   // has no content: otherwise it is a document with a remark
	alone   bool     // there is no other member
	code    []string // the first that is a single word counts
	message []string
	status  bool // only with a status that has no document
}

// errorForms are the known ones; the first that fits counts. An empty error is none.
var errorForms = []form{
	{of: "Django REST Framework", failed: "detail", alone: true, message: []string{"detail"}},
	{of: strapi, failed: "error.name", beside: "data", unless: "data", code: []string{"error.name"}, message: []string{"error.message"}},
	{of: "Directus, GraphQL", failed: "errors", unless: "data", code: []string{"errors.0.extensions.code"}, message: []string{"errors.0.message", "errors.0.detail", "errors.0.title"}},
	{of: "WordPress", failed: "data.status", beside: "code", code: []string{"code"}, message: []string{"message"}},
	{of: "many", failed: "error", unless: "data", code: []string{"error.name", "error.code", "error"}, message: []string{"error.message", "error"}},
	{of: "RFC 9457, PocketBase", failed: "", status: true, message: []string{"detail", "message", "title", "error_description"}},
}

const strapi = "Strapi"

// readEnvelope reports whether body is an error of one of the forms, and what it says.
func readEnvelope(body []byte, status bool) (envelope, bool) {
	members, ok := outline(body)
	if !ok {
		return envelope{}, false
	}
	for _, f := range errorForms {
		_, beside := at(members, f.beside)
		failed, _ := at(members, f.failed)
		unless, _ := at(members, f.unless)
		if f.status && !status || !f.status && !isFailure(failed) || f.alone && len(members) > 1 ||
			f.beside != "" && !beside || f.unless != "" && hasContent(unless) {
			continue
		}
		said := envelope{of: f.of}
		for _, path := range f.code {
			text, _ := at(members, path)
			if word, ok := text.(string); ok && said.name == "" && wordPattern.MatchString(word) {
				said.name = word
			}
		}
		for _, path := range f.message {
			text, _ := at(members, path)
			if message, ok := text.(string); ok && said.message == "" {
				said.message = message
			}
		}
		return said, true
	}
	return envelope{}, false
}

// outline decodes the members of an object that are short; a longer one is true.
func outline(body []byte) (members map[string]any, ok bool) {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, false
	}
	members = make(map[string]any)
	for d.PeekKind() == '"' && len(members) < maxMembers {
		t, _ := d.ReadToken()
		name := t.String()
		raw, err := d.ReadValue()
		if err != nil {
			break
		}
		var v any = true
		if len(raw) <= maxEnvelope {
			_ = json.Unmarshal(raw, &v) // which is JSON
		}
		members[name] = v
	}
	return members, true
}

// at returns the value at a path; the empty one leads nowhere.
func at(v any, path string) (found any, ok bool) {
	for _, name := range strings.Split(path, ".") {
		switch within := v.(type) {
		case map[string]any:
			v, ok = within[name]
		case []any:
			i, err := strconv.Atoi(name)
			if ok = err == nil && i < len(within); ok {
				v = within[i]
			}
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
	}
	return v, true
}

// isFailure reports whether the value of a member that errors have says that there is one: an
// object by its code, if it has one.
func isFailure(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case float64:
		return v != 0 && (v < 200 || v > 299)
	case string:
		n, err := strconv.ParseFloat(v, 64)
		return err != nil && !slices.Contains(successes, strings.ToLower(strings.TrimSpace(v))) || err == nil && isFailure(n)
	case []any:
		return slices.ContainsFunc(v, isFailure)
	case map[string]any:
		for _, name := range []string{"code", "status", "name"} {
			if code, ok := v[name]; ok && code != nil {
				return isFailure(code)
			}
		}
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), isFailure)
	}
	return false
}

var successes = []string{"", "ok", "success", "none", "null", "false", "no error"}

// hasContent reports whether anything in v is more than null, false, "" or 0.
func hasContent(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, hasContent)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), hasContent)
	}
	return v != nil && v != false && v != "" && v != 0.0
}

var wordPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{1,63}$`)

// pageKind describes a page by its beginning.
func pageKind(body []byte) string {
	page := strings.ToLower(string(body[:min(len(body), maxEnvelope)]))
	if strings.Contains(page, `type="password"`) || strings.Contains(page, `type='password'`) || strings.Contains(page, "type=password") {
		return "an HTML page with a login form"
	}
	return "an HTML page"
}

// mediaType reads a Content-Type as browsers do: the type ends before the first character that no
// type has, and of a parameter that is repeated the first counts. Both are in lower case.
func mediaType(h http.Header) (media, charset string) {
	kind := strings.ToLower(strings.TrimSpace(h.Get("Content-Type")))
	if found := charsetPattern.FindStringSubmatch(kind); found != nil {
		charset = found[1]
	}
	if end := strings.IndexAny(kind, "; \t,"); end >= 0 {
		kind = kind[:end]
	}
	return kind, charset
}

var charsetPattern = regexp.MustCompile(`[;,\s]charset\s*=[\s"']*([^\s;,"']*)`)

func isJSON(media string) bool {
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}

func isHTML(media string) bool {
	return media == "text/html" || media == "application/xhtml+xml"
}

// clip shortens text of the CMS for a log line.
func clip(s string) string { return sanitize.Clip(s, 80) }
