package operator

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"vitrine/cache"
	"vitrine/upstream/shape"
)

// formats are the functions of the templates.
var formats = template.FuncMap{
	"span": span, "seconds": seconds, "ago": ago, "clock": clock, "milliseconds": milliseconds, "percent": percent,
	"compact": compact, "count": func(n uint64) string { return compact(float64(n)) },
	"size": size, "plural": plural, "capital": capital[shape.Resource], "tag": tag, "describe": describe, "holds": holds,
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

// pages serves the pages for people.
type pages struct {
	*collector
	log *slog.Logger
}

func (p *pages) register(mux *http.ServeMux) {
	mux.HandleFunc("/{$}", get(p.overviewPage))
	mux.HandleFunc("/documents/{resource}", get(p.documentsPage))
	mux.HandleFunc("/documents/{resource}/{list}/{id}", get(p.itemPage))
	mux.HandleFunc("/assets/{name}", get(p.asset))
}

// asset serves a style sheet, script or icon. Browsers revalidate it each time.
func (p *pages) asset(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.PathValue("name"))
	body, err := fs.ReadFile(assets, "assets/"+name)
	if err != nil || strings.HasSuffix(name, ".html") {
		writeDetail(w, http.StatusNotFound, "Not found.")
		return
	}
	secure(w.Header())
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", cache.ETag(body))
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}

func (p *pages) render(w http.ResponseWriter, name string, data any) {
	var body bytes.Buffer
	if err := templates.ExecuteTemplate(&body, name, data); err != nil {
		p.log.Error("operator's page not rendered", "page", name, "error", err)
		writeDetail(w, http.StatusInternalServerError, "Internal server error.")
		return
	}
	secure(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, Visible(body.String())) // a client that has gone needs no page
}

func (p *pages) overviewPage(w http.ResponseWriter, _ *http.Request) {
	st := p.collect()
	page := overviewOf(st)
	page.frame = newFrame("Overview", "/", &st)
	p.render(w, "overview.html", page)
}

// find finds the document that a path names. It answers itself where there is no such resource.
func (p *pages) find(w http.ResponseWriter, r *http.Request) (shape.Resource, *cache.Document, bool) {
	resource := shape.Resource(r.PathValue("resource"))
	if !resource.Valid() || p.document == nil {
		writeDetail(w, http.StatusNotFound, "Not found.")
		return "", nil, false
	}
	return resource, p.document(resource), true
}

func (p *pages) documentsPage(w http.ResponseWriter, r *http.Request) {
	resource, doc, ok := p.find(w, r)
	if !ok {
		return
	}
	st := p.present()
	base := "/documents/" + string(resource)
	page := documents{frame: newFrame(capital(resource), base, &st), Route: st.Resources[resource].Route, Held: doc != nil}
	if doc != nil {
		lists, err := listsOf(resource, doc.Body)
		if err != nil {
			p.log.Error("document not shown", "resource", resource, "error", err)
			writeDetail(w, http.StatusInternalServerError, "Internal server error.")
			return
		}
		page.Version = "Being served now: version " + tag(doc.ETag) + ", fetched " + ago(doc.FetchedAt, st.Now) + ", last changed " + ago(doc.ChangedAt, st.Now) + "."
		page.fill(lists, base, r.URL.Query())
	}
	p.render(w, "documents.html", page)
}

// itemPage shows one item: usually one object, and several if the CMS sent its id more than once.
func (p *pages) itemPage(w http.ResponseWriter, r *http.Request) {
	resource, doc, ok := p.find(w, r)
	if !ok {
		return
	}
	name, id := r.PathValue("list"), r.PathValue("id")
	var found []json.RawMessage
	if doc != nil {
		lists, err := listsOf(resource, doc.Body)
		if err != nil {
			p.log.Error("item not shown", "resource", resource, "error", err)
		}
		found = withID(lists, name, id)
	}
	if len(found) == 0 {
		writeDetail(w, http.StatusNotFound, "Not found in the copy held now.")
		return
	}
	if r.URL.Query().Get("format") == "json" {
		writeJSON(w, http.StatusOK, []byte(Visible(string(found[0]))+"\n"))
		return
	}
	st := p.present()
	base := "/documents/" + string(resource)
	page := struct {
		frame
		Version, Back, List string
		Items               []string
	}{
		frame:   newFrame(capital(name)+" "+id, base, &st),
		Version: "As it is served now: version " + tag(doc.ETag) + " of the " + string(resource) + ".",
		Back:    base + "?list=" + url.QueryEscape(name), List: string(resource),
	}
	for _, v := range found {
		var out bytes.Buffer
		if err := json.Indent(&out, v, "", "  "); err != nil {
			p.log.Error("item not indented", "resource", resource, "error", err)
		}
		page.Items = append(page.Items, out.String())
	}
	p.render(w, "item.html", page)
}

// withID returns the items of the named list that have the id.
func withID(lists []list, name, id string) (found []json.RawMessage) {
	for _, l := range lists {
		if l.name != name {
			continue
		}
		for _, i := range l.items {
			if text(i.value("id")) == id {
				found = append(found, i.raw)
			}
		}
	}
	return found
}
