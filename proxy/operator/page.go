package operator

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"vitrine/proxy/operator/webhook"
	"vitrine/upstream/shape"
)

// formats are the functions of the templates.
var formats = template.FuncMap{
	"span": span, "seconds": seconds, "ago": ago, "clock": clock, "milliseconds": milliseconds, "percent": percent,
	"compact": compact, "count": func(n uint64) string { return compact(float64(n)) },
	"size":   func(bytes int) string { return humanize.IBytes(uint64(bytes)) },
	"plural": english.Plural, "capital": capital[shape.Resource], "tag": tag, "describe": describe, "holds": holds,
}

//go:embed assets
var assets embed.FS

// templates escape all their data, for the place where it stands.
var templates = template.Must(template.New("").Funcs(formats).ParseFS(assets, "assets/*.html"))

// contentPolicy: everything comes from this address, nothing stands inside the page itself, nobody
// frames it.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secure sets the header fields that every page and asset has.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// asset serves a style sheet, script or icon. Browsers revalidate it each time.
func asset(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.PathValue("name"))
	body, err := fs.ReadFile(assets, "assets/"+name)
	if err != nil || strings.HasSuffix(name, ".html") {
		webhook.Detail(w, http.StatusNotFound, "Not found.")
		return
	}
	secure(w.Header())
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(body)))
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}

// render writes a page made of a template.
func render(w http.ResponseWriter, log *slog.Logger, name string, data any) {
	var body bytes.Buffer
	if err := templates.ExecuteTemplate(&body, name, data); err != nil {
		log.Error("operator's page not rendered", "page", name, "error", err)
		webhook.Detail(w, http.StatusInternalServerError, "Internal server error.")
		return
	}
	secure(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, visible(body.String())) // a client that has gone needs no page
}

// documentPage serves the copy held of a resource, indented for people.
func documentPage(held func(shape.Resource) []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		resource := shape.Resource(r.PathValue("resource"))
		if !resource.Valid() {
			webhook.Detail(w, http.StatusNotFound, "Not found.")
			return
		}
		body := held(resource)
		if body == nil {
			webhook.Detail(w, http.StatusNotFound, "Nothing is held now. The next request fetches it.")
			return
		}
		writeValue(w, http.StatusOK, json.RawMessage(body))
	}
}
