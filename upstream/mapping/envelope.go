package mapping

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// Page is one response without its envelope.
type Page struct {
	Items [][]byte `json:"-"` // each the JSON of one item, unchanged
	Total int      // total items; -1 if unknown
	Pages int      // total pages; -1 if unknown
	Size  int      // items of a full page; 0 if unknown
	Next  string   // the link or cursor of the next page
	Whole bool     // the response says that nothing follows
	More  string   // what shows that something follows, if paging is not configured
	IDs   []string // of Items, if a program finds them

	left, most int // maximum items of this page, and of all pages
}

// An envelope is what a CMS puts around a list: the members that have its items, and what it says
// about them, by their paths. The zero value is none: the answer is the list.
type envelope struct {
	items              string   // a member of the answer
	single             bool     // one object is in that member too
	total, pages, next string   // counts of all items and pages, and the link to the next page
	size               []string // items of a full page
	want               string   // for refusals
}

// maxSaid bounds the memory of what is decoded of an envelope, besides the items.
const maxSaid = 1 << 20

// open takes the items out of a response and reads what it says about them. Nothing follows a bare
// list where an envelope could be.
func (e *envelope) open(d *reader, list bool, page *Page) error {
	switch kind := d.json.PeekKind(); {
	case list && (e.items == "" || kind == '['):
		page.Whole = e.items != ""
		var err error
		page.Items, err = d.list(d.root, page.left, page.most)
		return err
	case !list && !e.single:
		page.Whole = e.items != ""
		item, err := d.raw()
		page.Items = [][]byte{item}
		return err
	case kind != '{':
		return d.unlike(d.root, e.want)
	}
	said, found := map[string]any{}, false
	room := maxSaid
	d.budget = &room
	err := d.members(func(name string) (err error) {
		switch {
		case name == e.items && list:
			found = true
			page.Items, err = d.list(d.root+"."+name, page.left, page.most)
		case name == e.items:
			found = true
			page.Items = make([][]byte, 1)
			page.Items[0], err = d.raw()
		case name == "meta", name == e.total, name == e.next:
			said[name], err = d.value()
		default:
			_, err = d.raw()
		}
		return err
	})
	if err != nil {
		return err
	}
	if _, paged := said[e.next]; !found || e.next != "" && !paged {
		return refuse(d.root, e.want, "another object")
	}
	for i, path := range append([]string{e.total, e.pages}, e.size...) {
		v, to := lookup(said, path), []*int{&page.Total, &page.Pages, &page.Size}[min(i, 2)]
		if text, ok := v.(string); ok { // as some databases have numbers
			v = json.Number(text)
		}
		if v == nil {
			continue
		}
		if *to, err = countOf(d.root+"."+path, v); err != nil {
			return err
		}
	}
	page.Next, err = text(d.root+"."+e.next, said[e.next])
	return err
}

// lookup returns the member of an object at a path, nil if there is none.
func lookup(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

func headerCount(h http.Header, name string) int {
	n, err := strconv.Atoi(h.Get(name))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// number is the digits of a whole number of any of gojq's types, or "". Reading it takes time that
// grows with the square of its length, so that is bounded.
func number(v any) string {
	const most = 64
	if text, ok := v.(json.Number); ok && len(text) > most {
		return ""
	}
	switch v.(type) {
	case int, float64, json.Number:
		if n, ok := gojq.ToInt(v); ok {
			return strconv.Itoa(n)
		}
	}
	return ""
}

// countOf reads a number of items.
func countOf(path string, v any) (int, error) {
	if n := number(v); n != "" && n[0] != '-' {
		return strconv.Atoi(n)
	}
	return -1, refuse(path, "a number of items", Clip(gojq.Preview(v)))
}

// text reads a link or a cursor; null and false are "".
func text(path string, v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case bool:
		if !v {
			return "", nil
		}
	case string:
		return v, nil
	default:
		if n := number(v); n != "" {
			return n, nil
		}
	}
	return "", refuse(path, "a link, a cursor or null", Clip(gojq.Preview(v)))
}
