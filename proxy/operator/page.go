package operator

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"vitrine/cache"
	"vitrine/upstream/shape"
)

//go:embed assets
var assets embed.FS

// templates escape all their data, for the place where it stands.
var templates = template.Must(template.New("").Funcs(formats).ParseFS(assets, "assets/*.html"))

// contentPolicy: everything comes from this address, nothing stands inside the page itself, nobody frames it.
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

// pages adds the pages for people.
func (s *Server) pages(mux *http.ServeMux) {
	mux.HandleFunc("/{$}", get(s.overviewPage))
	mux.HandleFunc("/documents/{resource}", get(s.documentsPage))
	mux.HandleFunc("/documents/{resource}/{list}/{id}", get(s.itemPage))
	mux.HandleFunc("/assets/{name}", get(s.asset))
}

// asset serves a style sheet, script or icon. Browsers revalidate it each time.
func (s *Server) asset(w http.ResponseWriter, r *http.Request) {
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

// frame is the part around every page.
type frame struct {
	Title   string
	Nav     []link
	Process *Status
}

// A link is a place to go, or where one is.
type link struct {
	Name, Href string
	Count      int
	Here       bool
}

// frame makes the frame of the page at the path here.
func (s *Server) frame(title, here string, st *Status) frame {
	f := frame{Title: title, Process: st, Nav: []link{{Name: "Overview", Href: "/", Here: here == "/"}}}
	for _, r := range shape.Resources() {
		href := "/documents/" + string(r)
		f.Nav = append(f.Nav, link{Name: capital(r), Href: href, Here: here == href})
	}
	return f
}

func (s *Server) render(w http.ResponseWriter, name string, page any) {
	var body bytes.Buffer
	if err := templates.ExecuteTemplate(&body, name, page); err != nil {
		s.options.Logger.Error("operator's page not rendered", "page", name, "error", err)
		writeDetail(w, http.StatusInternalServerError, "Internal server error.")
		return
	}
	secure(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, Visible(body.String())) // a client that has gone needs no page
}

func (s *Server) overviewPage(w http.ResponseWriter, _ *http.Request) {
	st := s.collect()
	page := overviewOf(st)
	page.frame = s.frame("Overview", "/", &st)
	s.render(w, "overview.html", page)
}

// document finds the document that a path names. It answers itself where there is no such resource.
func (s *Server) document(w http.ResponseWriter, r *http.Request) (shape.Resource, *cache.Document, bool) {
	resource := shape.Resource(r.PathValue("resource"))
	if !resource.Valid() || s.options.Document == nil {
		writeDetail(w, http.StatusNotFound, "Not found.")
		return "", nil, false
	}
	return resource, s.options.Document(resource), true
}

func (s *Server) documentsPage(w http.ResponseWriter, r *http.Request) {
	resource, doc, ok := s.document(w, r)
	if !ok {
		return
	}
	st := s.present()
	base := "/documents/" + string(resource)
	page := documents{frame: s.frame(capital(resource), base, &st), Route: st.Resources[resource].Route, Held: doc != nil}
	if doc != nil {
		lists, err := listsOf(resource, doc.Body)
		if err != nil {
			s.options.Logger.Error("document not shown", "resource", resource, "error", err)
			writeDetail(w, http.StatusInternalServerError, "Internal server error.")
			return
		}
		page.Version = "Being served now: version " + tag(doc.ETag) + ", fetched " + ago(doc.FetchedAt, st.Now) + ", last changed " + ago(doc.ChangedAt, st.Now) + "."
		page.fill(lists, base, r.URL.Query())
	}
	s.render(w, "documents.html", page)
}

// itemPage shows one item: usually one object, and several if the CMS sent its id more than once.
func (s *Server) itemPage(w http.ResponseWriter, r *http.Request) {
	resource, doc, ok := s.document(w, r)
	if !ok {
		return
	}
	name, id := r.PathValue("list"), r.PathValue("id")
	var found []json.RawMessage
	if doc != nil {
		lists, err := listsOf(resource, doc.Body)
		if err != nil {
			s.options.Logger.Error("item not shown", "resource", resource, "error", err)
		}
		found = withID(lists, name, id)
	}
	if len(found) == 0 {
		writeDetail(w, http.StatusNotFound, "Not found in the copy held now.")
		return
	}
	if r.URL.Query().Get("format") == "json" {
		writeJSON(w, http.StatusOK, append(bytes.Clone(found[0]), '\n'))
		return
	}
	st := s.present()
	base := "/documents/" + string(resource)
	page := struct {
		frame
		Version, Back, List string
		Items               []string
	}{
		frame:   s.frame(capital(name)+" "+id, base, &st),
		Version: "As it is served now: version " + tag(doc.ETag) + " of the " + string(resource) + ".",
		Back:    base + "?list=" + url.QueryEscape(name), List: string(resource),
	}
	for _, v := range found {
		var out bytes.Buffer
		if err := json.Indent(&out, v, "", "  "); err != nil {
			s.options.Logger.Error("item not indented", "resource", resource, "error", err)
		}
		page.Items = append(page.Items, out.String())
	}
	s.render(w, "item.html", page)
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
