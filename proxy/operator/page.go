package operator

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"vitrine/cache"
	"vitrine/upstream/shape"
)

//go:embed assets
var assets embed.FS

// templates escape all that they are given, for where it stands.
var templates = template.Must(template.ParseFS(assets, "assets/*.html"))

// The policy of the pages: everything comes from this address, nothing stands inside the page itself, nobody frames it.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secure sets what every page and asset has.
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

// asset serves what a page is made of. The browser asks each time, and is told when it has it.
func (s *Server) asset(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.PathValue("name"))
	body, err := fs.ReadFile(assets, "assets/"+name)
	if err != nil || strings.HasSuffix(name, ".html") {
		s.fail(w, http.StatusNotFound, "Not found.")
		return
	}
	secure(w.Header())
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", cache.ETag(body))
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}

func (s *Server) render(w http.ResponseWriter, name string, page any) {
	var body bytes.Buffer
	if err := templates.ExecuteTemplate(&body, name, page); err != nil {
		s.options.Logger.Error("operator's page cannot be made", "page", name, "error", err)
		s.fail(w, http.StatusInternalServerError, "Internal server error.")
		return
	}
	secure(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = body.WriteTo(w) // an operator who has gone needs no page
}

// frame is around every page; here is its own path.
func (s *Server) frame(title, here string, st *Status) frame {
	f := frame{Title: title, Version: st.Version, Started: clock(st.Started, st.Now), Zone: st.Now.Format("MST")}
	f.Nav = append(f.Nav, link{Name: "Overview", Href: "/", Here: here == "/"})
	for _, r := range shape.Resources() {
		href := "/documents/" + string(r)
		f.Nav = append(f.Nav, link{Name: capital(string(r)), Href: href, Here: here == href})
	}
	return f
}

func (s *Server) overviewPage(w http.ResponseWriter, _ *http.Request) {
	st, points := s.collect()
	page, err := overviewOf(&st, points)
	if err != nil {
		s.options.Logger.Error("operator's charts cannot be drawn", "error", err)
		s.fail(w, http.StatusInternalServerError, "Internal server error.")
		return
	}
	page.frame = s.frame("Overview", "/", &st)
	s.render(w, "overview.html", page)
}

// documents is the page of a resource: a page of a table of one of its lists.
type documents struct {
	frame
	Told, Route    string
	List           string // empty where there is one alone
	Held           bool
	Lists, Pages   []link
	Query          query
	Count, Caption string
	Columns        []column
	Rows           []linkedRow
}

// A column is a field that can be sorted by.
type column struct{ Name, Href, Sorted, Arrow string }

// A linkedRow leads to its item.
type linkedRow struct {
	Href  string
	Cells []string
}

// document finds what a path names. It answers itself where there is no such resource.
func (s *Server) document(w http.ResponseWriter, r *http.Request) (shape.Resource, *cache.Document, bool) {
	resource := shape.Resource(r.PathValue("resource"))
	if !resource.Valid() || s.options.Document == nil {
		s.fail(w, http.StatusNotFound, "Not found.")
		return "", nil, false
	}
	return resource, s.options.Document(resource), true
}

func (s *Server) documentsPage(w http.ResponseWriter, r *http.Request) {
	resource, doc, ok := s.document(w, r)
	if !ok {
		return
	}
	st := s.told()
	base := "/documents/" + string(resource)
	page := documents{frame: s.frame(capital(string(resource)), base, &st), Route: st.Resources[resource].Route, Held: doc != nil}
	if doc == nil {
		s.render(w, "documents.html", page)
		return
	}
	lists, err := listsOf(resource, doc.Body)
	if err == nil && len(lists) > 0 {
		err = page.fill(lists, base, r.URL.Query())
	}
	if err != nil {
		s.options.Logger.Error("a document cannot be shown", "resource", resource, "error", err)
		s.fail(w, http.StatusInternalServerError, "Internal server error.")
		return
	}
	page.Told = fmt.Sprintf("What is served now: version %s, fetched %s, last changed %s.", tag(doc.ETag), ago(doc.FetchedAt, st.Now), ago(doc.ChangedAt, st.Now))
	s.render(w, "documents.html", page)
}

// fill makes the table that the query asks for.
func (d *documents) fill(lists []list, base string, asked url.Values) error {
	shown := lists[0]
	for _, l := range lists {
		if l.name == asked.Get("list") {
			shown = l
		}
	}
	number, err := strconv.Atoi(asked.Get("page"))
	if err != nil {
		number = 1
	}
	d.Query = query{Search: asked.Get("q"), Sort: asked.Get("sort"), Page: number}
	t, err := tableOf(shown, d.Query)
	if err != nil {
		return err
	}
	href := func(list, sort string, page int) string {
		v := url.Values{}
		for name, value := range map[string]string{"list": list, "q": d.Query.Search, "sort": sort} {
			if value != "" {
				v.Set(name, value)
			}
		}
		if page > 1 {
			v.Set("page", strconv.Itoa(page))
		}
		return base + "?" + v.Encode()
	}
	list := ""
	if len(lists) > 1 {
		list = shown.name
		for _, l := range lists {
			d.Lists = append(d.Lists, link{Name: capital(l.name), Href: href(l.name, "", 1), Count: len(l.items), Here: l.name == list})
		}
	}
	d.List = list
	d.Count = plural(t.Found, "item", "items")
	if d.Query.Search != "" {
		d.Count = fmt.Sprintf("%d of %s with “%s” in them", t.Found, plural(t.All, "item", "items"), d.Query.Search)
	}
	d.Caption = capital(shown.name) + ": choose a column's name to sort by it, an item to read it whole."
	for _, name := range t.Columns {
		c := column{Name: name, Href: href(list, name, 1)}
		switch d.Query.Sort {
		case name:
			c.Href, c.Sorted, c.Arrow = href(list, "-"+name, 1), "ascending", " ↑"
		case "-" + name:
			c.Href, c.Sorted, c.Arrow = href(list, "", 1), "descending", " ↓"
		}
		d.Columns = append(d.Columns, c)
	}
	for _, row := range t.Rows {
		d.Rows = append(d.Rows, linkedRow{Href: base + "/" + url.PathEscape(shown.name) + "/" + url.PathEscape(row.ID), Cells: row.Cells})
	}
	for n := 1; t.Pages > 1 && n <= t.Pages; n++ {
		if n == 1 || n == t.Pages || n >= t.Page-2 && n <= t.Page+2 {
			d.Pages = append(d.Pages, link{Name: strconv.Itoa(n), Href: href(list, d.Query.Sort, n), Here: n == t.Page})
		}
	}
	return nil
}

// item is the page of one item.
type item struct {
	frame
	Told, Back, List string
	Items            []string
}

func (s *Server) itemPage(w http.ResponseWriter, r *http.Request) {
	resource, doc, ok := s.document(w, r)
	if !ok {
		return
	}
	name, id := r.PathValue("list"), r.PathValue("id")
	var found []jsontext.Value
	if doc != nil {
		lists, err := listsOf(resource, doc.Body)
		for _, l := range lists {
			if l.name == name && err == nil {
				found, err = withID(l, id)
			}
		}
		if err != nil {
			s.options.Logger.Error("an item cannot be shown", "resource", resource, "error", err)
		}
	}
	if len(found) == 0 {
		s.fail(w, http.StatusNotFound, "Not found: it is not in what is held now.")
		return
	}
	if r.URL.Query().Get("format") == "json" {
		writeJSON(w, http.StatusOK, append(bytes.Clone(found[0]), '\n'))
		return
	}
	st := s.told()
	base := "/documents/" + string(resource)
	page := item{frame: s.frame(capital(name)+" "+id, base, &st), Back: base + "?list=" + url.QueryEscape(name), List: string(resource)}
	page.Told = fmt.Sprintf("As it is served now: version %s of the %s.", tag(doc.ETag), resource)
	for _, v := range found {
		v = v.Clone()
		if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
			s.options.Logger.Error("an item cannot be indented", "resource", resource, "error", err)
		}
		page.Items = append(page.Items, string(v))
	}
	s.render(w, "item.html", page)
}
