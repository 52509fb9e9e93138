package operator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"vitrine/upstream/shape"
)

// documents is the data of the page of a resource: one page of a table of one of its lists.
type documents struct {
	frame
	Version, Route string
	Held           bool
	List           string // empty where there is one alone
	Lists, Pages   []link
	Search, Sort   string // Sort is a field, with a leading - for descending; empty is the document's order
	Count, Caption string
	Columns        []column
	Rows           []row
}

// A column is a field that can be sorted by.
type column struct{ Name, Href, Sorted, Arrow string }

// A row leads to its item.
type row struct {
	Href  string
	Cells []string
}

const (
	pageRows = 50 // rows of a page
	maxText  = 90 // characters of a cell
)

// A list is one list of a document: a document that is an array is one list, the catalogue has
// three.
type list struct {
	name  string // of the field in the catalogue, of the resource otherwise
	items []item
}

// An item is an object of a list: its fields in their order, and its text.
type item struct {
	fields []field
	raw    json.RawMessage
}

type field struct {
	name  string
	value json.RawMessage
}

// listsOf splits a document, as it is served, into its lists.
func listsOf(r shape.Resource, body []byte) ([]list, error) {
	fields := []field{{string(r), body}}
	if r == shape.Catalogue {
		var err error
		if fields, err = fieldsOf(body); err != nil {
			return nil, err
		}
	}
	lists := make([]list, 0, len(fields))
	for _, f := range fields {
		var values []json.RawMessage
		if err := json.Unmarshal(f.value, &values); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		l := list{name: f.name}
		for _, v := range values {
			fields, err := fieldsOf(v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
			l.items = append(l.items, item{fields, v})
		}
		lists = append(lists, l)
	}
	return lists, nil
}

// fieldsOf returns the fields of an object in their order.
func fieldsOf(object json.RawMessage) ([]field, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, errors.Join(errors.New("want an object"), err)
	}
	var fields []field
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		f := field{name: name.(string)} // a key of an object
		if err := d.Decode(&f.value); err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// value returns the field of that name, nil if there is none.
func (i item) value(name string) json.RawMessage {
	for _, f := range i.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// label returns the first of the fields that identify an item to a person.
func (i item) label() string {
	for _, name := range []string{"title", "name", "street", "id"} {
		if s := text(i.value(name)); s != "" {
			return s
		}
	}
	return "{…}"
}

// text is a value in a cell of a table: the value itself, or the label of an object.
func text(v json.RawMessage) string {
	switch kind, items, object := parse(v); kind {
	case '"':
		var s string
		if json.Unmarshal(v, &s) == nil {
			return s
		}
	case 'n':
		return ""
	case '[':
		parts := make([]string, 0, len(items))
		for _, item := range items {
			parts = append(parts, text(item))
		}
		return strings.Join(parts, ", ")
	case '{':
		return object.label()
	}
	return string(v)
}

// parse returns the first byte of a value, and its items or fields.
func parse(v json.RawMessage) (kind byte, items []json.RawMessage, object item) {
	if len(v) == 0 {
		return 'n', nil, object
	}
	switch v[0] {
	case '[':
		_ = json.Unmarshal(v, &items) // the document was decoded before it was admitted
	case '{':
		object.fields, _ = fieldsOf(v)
	}
	return v[0], items, object
}

// contains reports whether one of the values in v, however deep, contains the lower-case words.
func contains(v json.RawMessage, words string) bool {
	switch kind, items, object := parse(v); kind {
	case '[':
		return slices.ContainsFunc(items, func(item json.RawMessage) bool { return contains(item, words) })
	case '{':
		return slices.ContainsFunc(object.fields, func(f field) bool { return contains(f.value, words) })
	}
	return strings.Contains(strings.ToLower(text(v)), words)
}

// compareValues orders numbers by value, texts without regard to case, and missing values first.
func compareValues(a, b json.RawMessage) int {
	x, errX := strconv.ParseFloat(string(a), 64)
	y, errY := strconv.ParseFloat(string(b), 64)
	if errX == nil && errY == nil {
		return cmp.Compare(x, y)
	}
	return strings.Compare(strings.ToLower(text(a)), strings.ToLower(text(b)))
}

// fill makes the table that a query asks for: list, q (search), sort and page.
func (d *documents) fill(lists []list, base string, query url.Values) {
	shown := lists[0]
	for _, l := range lists {
		if l.name == query.Get("list") {
			shown = l
		}
	}
	d.Search, d.Sort = query.Get("q"), query.Get("sort")
	href := func(list, sort string, page int) string {
		v := url.Values{}
		for name, value := range map[string]string{"list": list, "q": d.Search, "sort": sort} {
			if value != "" {
				v.Set(name, value)
			}
		}
		if page > 1 {
			v.Set("page", strconv.Itoa(page))
		}
		return base + "?" + v.Encode()
	}
	if len(lists) > 1 {
		d.List = shown.name
		for _, l := range lists {
			d.Lists = append(d.Lists, link{Name: capital(l.name), Href: href(l.name, "", 1), Count: len(l.items), Here: l.name == d.List})
		}
	}
	if len(shown.items) > 0 {
		for _, f := range shown.items[0].fields {
			c := column{Name: f.name, Href: href(d.List, f.name, 1)}
			switch d.Sort {
			case f.name:
				c.Href, c.Sorted, c.Arrow = href(d.List, "-"+f.name, 1), "ascending", " ↑"
			case "-" + f.name:
				c.Href, c.Sorted, c.Arrow = href(d.List, "", 1), "descending", " ↓"
			}
			d.Columns = append(d.Columns, c)
		}
	}
	found := d.find(shown.items)
	d.Caption = capital(shown.name) + ": select a column's name to sort by it, an item to read it whole."
	d.Count = plural(len(found), "item", "items")
	if d.Search != "" {
		d.Count = fmt.Sprintf("%d of %s contain “%s”", len(found), plural(len(shown.items), "item", "items"), d.Search)
	}
	page, err := strconv.Atoi(query.Get("page"))
	if err != nil {
		page = 1
	}
	pages := max(1, (len(found)+pageRows-1)/pageRows)
	page = min(max(1, page), pages)
	for _, i := range found[(page-1)*pageRows : min(page*pageRows, len(found))] {
		r := row{Href: base + "/" + url.PathEscape(shown.name) + "/" + url.PathEscape(text(i.value("id")))}
		for _, c := range d.Columns {
			cell := text(i.value(c.Name))
			if runes := []rune(cell); len(runes) > maxText {
				cell = strings.TrimSpace(string(runes[:maxText])) + "…"
			}
			r.Cells = append(r.Cells, cell)
		}
		d.Rows = append(d.Rows, r)
	}
	for n := 1; pages > 1 && n <= pages; n++ {
		if n == 1 || n == pages || n >= page-2 && n <= page+2 {
			d.Pages = append(d.Pages, link{Name: strconv.Itoa(n), Href: href(d.List, d.Sort, n), Here: n == page})
		}
	}
}

// find returns the items that the search selects, sorted.
func (d *documents) find(items []item) []item {
	words := strings.ToLower(strings.TrimSpace(d.Search))
	found := slices.Clone(items)
	if words != "" {
		found = slices.DeleteFunc(found, func(i item) bool { return !contains(i.raw, words) })
	}
	by, descending := strings.CutPrefix(d.Sort, "-")
	if slices.ContainsFunc(d.Columns, func(c column) bool { return c.Name == by }) {
		slices.SortStableFunc(found, func(a, b item) int {
			c := compareValues(a.value(by), b.value(by))
			if descending {
				return -c
			}
			return c
		})
	}
	return found
}
