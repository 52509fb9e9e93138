package exchange

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"

	"vitrine/upstream/plain"
)

// maxEnvelope is how much is read of a response without a document, for its error code.
const maxEnvelope = 64 << 10

// read fills e from the response's body. credentials says whether the request had some. Of the body
// only the CMS's error code is kept, and only if it is a single word.
func (e *StatusError) read(resp *http.Response, credentials bool) {
	media := mediaType(resp.Header)
	e.HTML = isHTML(media)
	if isJSON(media) {
		body := beginning(resp)
		said, _ := readEnvelope(body)
		e.Name, e.Said = said.name, plain.Clip(cmp.Or(said.message, messageIn(body)), 300)
		// With its database down, Strapi answers 401 to every request without a token (with one,
		// 500), as it does for a wrong token. Without permission it answers 403, so without a token
		// a 401 is an outage.
		e.Outage = e.Code == http.StatusUnauthorized && !credentials && said.strapi
	}
	e.Refused = credentials && (e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden)
}

// beginning is that of the body of a response without a document, decompressed, as far as it can be
// read: it adds to a failure that is known already.
func beginning(resp *http.Response) []byte {
	in := io.LimitReader(resp.Body, maxEnvelope)
	if strings.Contains(resp.Header.Get("Content-Encoding"), "gzip") {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil
		}
		in = io.LimitReader(unpacked, maxEnvelope)
	}
	body, _ := io.ReadAll(in) // what came before an error
	return body
}

// An envelope is a CMS's error in JSON.
type envelope struct {
	name    string // its error code, or empty
	message string // what it says, or empty
	strapi  bool
}

// readEnvelope reports whether body is an error of one of the known CMSs:
//
//	Django REST Framework  {"detail":"…"}
//	Strapi                 {"data":null,"error":{"status":401,"name":"UnauthorizedError",…}}
//	Directus               {"errors":[{"message":"…","extensions":{"code":"FORBIDDEN"}}]}
//	WordPress              {"code":"rest_forbidden","message":"…","data":{"status":401}}
//	many others            {"error":"…"}, {"error":{…}}
func readEnvelope(body []byte) (envelope, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return envelope{}, false
	}
	var detail, code, message string
	var object struct{ Code, Name, Message string }
	var list []struct {
		Message    string
		Extensions struct{ Code string }
	}
	var data struct{ Status int }
	read := func(member string, into any) bool {
		raw, ok := members[member]
		return ok && string(raw) != "null" && json.Unmarshal(raw, into) == nil
	}
	hasData := members["data"] != nil && string(members["data"]) != "null"
	switch {
	case len(members) == 1 && read("detail", &detail):
		return envelope{message: detail}, true
	case !hasData && read("error", &object):
		_, strapi := members["data"]
		return envelope{name: word(object.Name, object.Code), message: object.Message, strapi: strapi && object.Name != ""}, true
	case !hasData && read("error", &message):
		return envelope{name: word(message), message: message}, true
	case !hasData && read("errors", &list) && len(list) > 0:
		return envelope{name: word(list[0].Extensions.Code), message: list[0].Message}, true
	case read("code", &code) && read("message", &message) && read("data", &data):
		return envelope{name: word(code), message: message}, true
	}
	return envelope{}, false
}

// messageIn is what any other error in JSON says: {"message":"…"} of PocketBase, {"detail":"…"}
// beside other members, {"errors":[{"detail":"…"}]} of JSON:API, {"title":"…"} of RFC 9457.
func messageIn(body []byte) string {
	var object map[string]any
	if json.Unmarshal(body, &object) != nil {
		return ""
	}
	if list, ok := object["errors"].([]any); ok && len(list) > 0 {
		if first, ok := list[0].(map[string]any); ok {
			object = first
		}
	}
	for _, name := range []string{"detail", "message", "title", "error_description"} {
		if text, ok := object[name].(string); ok && text != "" {
			return text
		}
	}
	return ""
}

var wordPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{1,63}$`)

// word returns the first of candidates that is a single word, so that no text of the CMS is passed
// on.
func word(candidates ...string) string {
	for _, c := range candidates {
		if wordPattern.MatchString(c) {
			return c
		}
	}
	return ""
}

// pageKind describes a page by its beginning.
func pageKind(body []byte) string {
	page := strings.ToLower(string(body[:min(len(body), maxEnvelope)]))
	if strings.Contains(page, `type="password"`) || strings.Contains(page, `type='password'`) || strings.Contains(page, "type=password") {
		return "an HTML page with a login form"
	}
	return "an HTML page"
}

// mediaType is the type alone, in lower case, or "".
func mediaType(h http.Header) string {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return media
}

func isJSON(media string) bool {
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}

func isHTML(media string) bool {
	return media == "text/html" || media == "application/xhtml+xml"
}

// clip shortens text of the CMS for a log line.
func clip(s string) string { return plain.Clip(s, 80) }
