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
	Items [][]byte // each the JSON of one item, unchanged
	Total int      // total items; -1 if unknown
	Pages int      // total pages; -1 if unknown
	Size  int      // items of a full page; 0 if unknown
	Next  string   // the link or cursor of the next page
	Whole bool     // the response says that nothing follows
	More  string   // what shows that something follows, if paging is not configured
	IDs   []string // of Items, if a program finds them

	left, most int // maximum items of this page, and of all pages
}

func headerCount(h http.Header, name string) int {
	n, err := strconv.Atoi(h.Get(name))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// openPlain takes the whole response, a list or an object.
func openPlain(d *reader, list bool, page *Page) (err error) {
	if list {
		page.Items, err = d.list(d.root, page.left, page.most)
		return err
	}
	item, err := d.raw()
	page.Items = [][]byte{item}
	return err
}

// openDRF takes a plain list, or a page of the PageNumber, LimitOffset or Cursor pagination.
func openDRF(d *reader, list bool, page *Page) error {
	if !list || d.json.PeekKind() != '{' {
		page.Whole = true
		return openPlain(d, list, page)
	}
	found, paged := false, false
	err := d.members(func(name string) (err error) {
		switch name {
		case "results":
			found = true
			page.Items, err = d.list(d.root+".results", page.left, page.most)
			return err
		case "count":
			page.Total, err = d.count(d.root + ".count")
			return err
		case "next":
			paged = true
			page.Next, err = d.optional(d.root + ".next")
			return err
		default:
			_, err = d.raw()
			return err
		}
	})
	if err == nil && (!found || !paged) {
		return refuse(d.root, "a list, or a page of one with results and next", "another object")
	}
	return err
}

// openData takes the value at data, and passes meta to read. Nothing follows a bare list.
func openData(meta func(d *reader, page *Page) error) func(*reader, bool, *Page) error {
	return func(d *reader, list bool, page *Page) error {
		if list && d.json.PeekKind() == '[' {
			page.Whole = true
			return openPlain(d, list, page)
		}
		if d.json.PeekKind() != '{' {
			return d.unlike(d.root, "an object with data")
		}
		found := false
		err := d.members(func(name string) (err error) {
			switch {
			case name == "data" && list:
				found = true
				page.Items, err = d.list(d.root+".data", page.left, page.most)
				return err
			case name == "data":
				found = true
				item, err := d.raw()
				page.Items = [][]byte{item}
				return err
			case name == "meta" && d.json.PeekKind() == '{':
				return meta(d, page)
			default:
				_, err = d.raw()
				return err
			}
		})
		if err == nil && !found {
			return refuse(d.root, "an object with data", "another object")
		}
		return err
	}
}

// strapiMeta reads {"pagination":{"page","pageSize","pageCount","total"}}, or the same with start
// and limit.
func strapiMeta(d *reader, page *Page) error {
	raw, err := d.raw()
	if err != nil {
		return err
	}
	var meta struct {
		Pagination struct {
			PageSize  *int `json:"pageSize"`
			Limit     *int `json:"limit"`
			PageCount *int `json:"pageCount"`
			Total     *int `json:"total"`
		} `json:"pagination"`
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return refuse(d.root+".meta.pagination", "counts", Clip(string(raw)))
	}
	for _, size := range []*int{meta.Pagination.PageSize, meta.Pagination.Limit} {
		if size != nil && *size > 0 {
			page.Size = *size
		}
	}
	if total := meta.Pagination.Total; total != nil && *total >= 0 {
		page.Total = *total
	}
	if pages := meta.Pagination.PageCount; pages != nil && *pages >= 0 {
		page.Pages = *pages
	}
	return nil
}

// directusMeta reads {"filter_count":7}.
func directusMeta(d *reader, page *Page) error {
	return d.members(func(name string) (err error) {
		if name == "filter_count" {
			page.Total, err = d.count(d.root + ".meta.filter_count")
			return err
		}
		_, err = d.raw()
		return err
	})
}

// count reads a number of items, which some databases return as a string. null is -1.
func (d *reader) count(path string) (int, error) {
	raw, err := d.raw()
	if err != nil || string(raw) == "null" {
		return -1, err
	}
	n, err := strconv.Atoi(strings.Trim(string(raw), `"`))
	if err != nil || n < 0 {
		return -1, refuse(path, "a number of items", Clip(string(raw)))
	}
	return n, nil
}

// optional reads a string; null is "".
func (d *reader) optional(path string) (string, error) {
	if k := d.json.PeekKind(); k != '"' && k != 'n' {
		return "", d.unlike(path, "a link or null")
	}
	t, err := d.json.ReadToken()
	if err != nil {
		return "", d.broken(err)
	}
	if t.Kind() == 'n' {
		return "", nil
	}
	return t.String(), nil
}

// number is the digits of a whole number of any of gojq's types, or "".
func number(v any) string {
	switch v.(type) {
	case int, float64, json.Number:
		if n, ok := gojq.ToInt(v); ok {
			return strconv.Itoa(n)
		}
	}
	return ""
}

// countOf reads a number of items that a program found.
func countOf(path string, v any) (int, error) {
	if n := number(v); n != "" && n[0] != '-' {
		return strconv.Atoi(n)
	}
	return -1, refuse(path, "a number of items from the program", Clip(gojq.Preview(v)))
}

// text reads a link or a cursor that a program found; null and false are "".
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
	return "", refuse(path, "a link, a cursor or null from the program", Clip(gojq.Preview(v)))
}
