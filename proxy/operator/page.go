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
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"vitrine/proxy/operator/webhook"
	"vitrine/proxy/verdict"
	"vitrine/upstream/sanitize"
	"vitrine/upstream/shape"
)

// formats are the functions of the templates.
var formats = template.FuncMap{
	"span": span, "seconds": seconds, "ago": ago, "clock": clock, "milliseconds": milliseconds, "percent": percent,
	"number": number, "count": func(n uint64) string { return humanize.Comma(int64(n)) },
	"size":   func(bytes int) string { return humanize.IBytes(uint64(bytes)) },
	"plural": english.Plural, "capital": verdict.Capital, "tag": tag, "charts": chartsOf, "runbook": runbook,
}

//go:embed assets
var assets embed.FS

// templates escape all their data, for the place where it stands.
var templates = template.Must(template.New("").Funcs(formats).ParseFS(assets, "assets/*.html"))

// contentPolicy: everything comes from this address, nothing stands inside the page itself, nobody
// frames it.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secure sets the header fields that keep pages of other origins from using an answer.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// asset serves a style sheet, script or icon. Browsers revalidate it each time.
func asset(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.PathValue("name"))
	body, err := fs.ReadFile(assets, "assets/"+name)
	if err != nil || strings.HasSuffix(name, ".html") {
		webhook.Detail(w, http.StatusNotFound, "Not found.")
		return
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(body)))
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}

// A section of the runbook.
type section struct{ ID, Title, Text string }

// sectionsOf are the sections of a page in Markdown, with the ids that links to them have.
func sectionsOf(page string) (all []section) {
	for _, part := range strings.Split(page, "\n## ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		id := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-':
				return unicode.ToLower(r)
			}
			return -1
		}, title)
		all = append(all, section{id, title, strings.TrimSpace(text)})
	}
	return all
}

// runbook is the link to a section of docs/operations.md, which this server has.
func runbook(page string) string { return strings.Replace(page, "docs/operations.md", "/runbook", 1) }

// render writes a page made of a template.
func render(w http.ResponseWriter, log *slog.Logger, name string, data any) {
	var body bytes.Buffer
	if err := templates.ExecuteTemplate(&body, name, data); err != nil {
		log.Error("status page not rendered", "page", name, "error", err)
		webhook.Detail(w, http.StatusInternalServerError, "Internal server error.")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, sanitize.JSON(body.String())) // a client that has gone needs no page
}

// maxDocuments bounds the documents in memory that wait for their clients to read them.
const maxDocuments = 2

// documentPage serves the cached copy of a resource, indented for people.
func documentPage(held func(shape.Resource) []byte) http.HandlerFunc {
	slots := make(chan struct{}, maxDocuments)
	return func(w http.ResponseWriter, r *http.Request) {
		resource := shape.Resource(r.PathValue("resource"))
		if !resource.Valid() {
			webhook.Detail(w, http.StatusNotFound, "Not found.")
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-r.Context().Done():
			return
		}
		body := held(resource)
		if body == nil {
			webhook.Detail(w, http.StatusNotFound, "Nothing is cached now. The next request fetches it.")
			return
		}
		writeValue(w, http.StatusOK, json.RawMessage(body))
	}
}
