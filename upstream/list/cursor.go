package list

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"vitrine/config/source"
	"vitrine/upstream/exchange"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// cursor is where a walk is in its list.
type cursor struct {
	page   int  // number of pages requested, this one included
	offset int  // number of items before
	size   int  // of the first page, if the CMS chose it
	probe  bool // it should be empty: the total may be that of a page
	query  string
	token  string
}

// style is how lists of one style of paging are asked for and go on.
type style struct {
	param bool   // it has a parameter
	finds string // what paging.next finds; empty: it is not needed
	value func(p *part, at cursor) any
	next  func(w *walk, at cursor, want exchange.Request, page mapping.Page) (next cursor, more bool, err error)
}

// styles are the known ones.
var styles = map[string]style{
	source.PagingNone: {},
	source.PagingPage: {param: true, next: counted, value: func(p *part, at cursor) any {
		if p.Paging.First != nil {
			return *p.Paging.First + at.page - 1
		}
		return at.page
	}},
	source.PagingOffset: {param: true, next: counted, value: func(_ *part, at cursor) any { return at.offset }},
	source.PagingLink:   {finds: "link", next: linked},
	source.PagingHeader: {next: linked},
	source.PagingCursor: {param: true, finds: "cursor", value: func(_ *part, at cursor) any {
		if at.token == "" {
			return nil
		}
		return at.token
	}, next: func(_ *walk, at cursor, _ exchange.Request, page mapping.Page) (cursor, bool, error) {
		at.token = page.Next
		return at, page.Next != "", nil
	}},
}

// counted goes on until the total is reached. Without one only an empty page is the end: a short one
// may be the CMS's maximum. A total that is that of a full page is tried once.
func counted(w *walk, at cursor, _ exchange.Request, page mapping.Page) (next cursor, more bool, err error) {
	g := w.part.Paging
	at.probe = at.page == 2 && w.total == w.received && g.SizeParam != "" && !w.part.all && len(page.Items) == g.Size
	return at, len(page.Items) > 0 && (w.total < 0 || w.received < w.total || at.probe), nil
}

func linked(w *walk, at cursor, want exchange.Request, page mapping.Page) (next cursor, more bool, err error) {
	if page.Next == "" {
		return at, false, nil
	}
	if at.query, err = w.cms.Follow(want, page.Next, w.part.Paging.Hosts); err != nil {
		return at, false, &shape.RefusedError{Path: w.part.root, Want: "a link to the next page of the same list", Got: err.Error()}
	}
	return at, true, nil
}

// maxNext bounds a link or a cursor. It becomes part of a URL, which no server takes at twice this
// length, and a link is read in time that grows with its square.
const maxNext = 16 << 10

// next returns the cursor after at, if the list continues.
func (w *walk) next(at cursor, want exchange.Request, page mapping.Page) (next cursor, more bool, err error) {
	next = cursor{page: at.page + 1, offset: w.received, size: max(at.size, len(page.Items))}
	follow := styles[w.part.Paging.Style].next
	switch {
	case page.Whole || follow == nil:
		return next, false, nil
	case len(page.Next) > maxNext:
		return next, false, &shape.RefusedError{Path: w.part.root, Want: fmt.Sprintf("a link or cursor of at most %d bytes", maxNext), Got: "a longer one"}
	}
	return follow(w, next, want, page)
}

// request returns the request for the page at a cursor.
func (w *walk) request(at cursor, held exchange.Validators) exchange.Request {
	p := w.part
	want := exchange.Request{
		Resource: string(w.recipe.resource), Part: p.Name, Page: at.page, Path: p.Path, Headers: p.Headers,
		Limit: exchange.Limit{Left: w.left, Most: w.recipe.maxBytes}, Held: held, NoCache: w.want.NoCache,
	}
	query := maps.Clone(p.Query)
	if query == nil {
		query = url.Values{}
	}
	body := p.Body.Value
	put := func(name string, value any) {
		if object, ok := body.(map[string]any); ok {
			body = with(object, name, value)
		} else if body == nil {
			query.Set(name, fmt.Sprint(value))
		}
	}
	if value := styles[p.Paging.Style].value; value != nil {
		if v := value(p, at); v != nil {
			put(p.Paging.Param, v)
		}
	}
	if p.Paging.SizeParam != "" && p.list {
		switch {
		case !p.all || p.Paging.Style != source.PagingOffset:
			put(p.Paging.SizeParam, p.Paging.Size)
		case at.page == 1:
			put(p.Paging.SizeParam, -1)
		default:
			put(p.Paging.SizeParam, at.size)
		}
	}
	want.Query = query.Encode()
	if at.query != "" { // the link has the whole query, including the path's
		want.Path, _, _ = strings.Cut(p.Path, "?")
		want.Query = at.query
	}
	switch {
	case body != nil:
		want.Body, _ = json.Marshal(body) // which Parse has tried
		want.Type = "application/json"
	case p.Body.Text != "":
		want.Body, want.Type = []byte(p.Body.Text), "text/plain; charset=utf-8"
	}
	return want
}

// with is an object with another value at a path, variables.after.
func with(object map[string]any, path string, value any) map[string]any {
	made := make(map[string]any)
	maps.Copy(made, object)
	name, rest, deeper := strings.Cut(path, ".")
	if deeper {
		inner, _ := made[name].(map[string]any)
		value = with(inner, rest, value)
	}
	made[name] = value
	return made
}
