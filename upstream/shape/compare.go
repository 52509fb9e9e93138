package shape

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"vitrine/upstream/guard"
	"vitrine/upstream/sanitize"
)

const (
	maxNames = 5  // of a list, for each of what [Change] names
	maxName  = 40 // of a name, in bytes before it is escaped
)

// Change is what became of one list of a document. Items are the same if their ids are. Names are
// those of the first few items, safe to show, and cut; an item without a name is "id 41".
type Change struct {
	List         string   `json:"list"` // "artwork", "banners"
	Added        int      `json:"added"`
	Removed      int      `json:"removed"`
	Changed      int      `json:"changed"`
	Moved        bool     `json:"moved"`            // items of both stand in another order
	Copies       int      `json:"copies,omitempty"` // of one id, more than before
	AddedNames   []string `json:"added_names,omitempty"`
	RemovedNames []string `json:"removed_names,omitempty"`
	ChangedNames []string `json:"changed_names,omitempty"`
	Fields       []string `json:"fields,omitempty"` // of the changed items
}

// Changes are the lists of a document that changed, in the documented order.
type Changes []Change

// Compare describes what changed from one document of r to another. Both are what [Normalize]
// wrote; of anything else, as much counts as can be read.
func Compare(r Resource, from, to []byte) (all Changes) {
	before, after := entries(r, from), entries(r, to)
	for i, list := range r.row().parts() {
		if c := compare(list.name, from, to, before[i], after[i]); c.Added+c.Removed+c.Changed+c.Copies > 0 || c.Moved {
			all = append(all, c)
		}
	}
	return all
}

// CountItems is how many items the lists of a document have together.
func CountItems(r Resource, doc []byte) (n int) {
	for _, list := range entries(r, doc) {
		n += len(list)
	}
	return n
}

// String says it in one line: 3 artworks added, 1 removed (Night Watch), 2 changed (title_en, tag).
// Without changes it is empty.
func (all Changes) String() string {
	var lists []string
	for _, c := range all {
		var said []string
		say := func(n int, what string, of []string) {
			if n == 0 {
				return
			}
			noun := ""
			if len(said) == 0 {
				noun = " " + guard.Noun(c.List, n)
			}
			s := fmt.Sprintf("%d%s %s", n, noun, what)
			if len(of) > 0 {
				s += " (" + strings.Join(of, ", ") + ")"
			}
			said = append(said, s)
		}
		say(c.Added, "added", nil)
		say(c.Removed, "removed", cut(c.RemovedNames, c.Removed))
		say(c.Changed, "changed", cut(c.Fields, len(c.Fields)))
		say(c.Copies, "sent again", nil)
		switch {
		case c.Moved && len(said) == 0:
			said = []string{guard.Noun(c.List, 2) + " in another order"}
		case c.Moved:
			said = append(said, "others moved")
		}
		lists = append(lists, strings.Join(said, ", "))
	}
	return strings.Join(lists, "; ")
}

// Reordered reports whether nothing but the order of items changed.
func (all Changes) Reordered() bool {
	return len(all) > 0 && !slices.ContainsFunc(all, func(c Change) bool { return c.Added+c.Removed+c.Changed > 0 })
}

// cut returns the first few of n names.
func cut(names []string, n int) []string {
	if names = names[:min(len(names), maxNames)]; n > len(names) {
		names = append(slices.Clone(names), "…")
	}
	return names
}

// compare compares two lists: both are put in the order of their ids, repeated ones as they stand,
// and read side by side. What is told comes in the order of the ids.
func compare(list string, from, to []byte, before, after []entry) Change {
	c := Change{List: list}
	byID := func(a, b entry) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.from, b.from)) }
	slices.SortFunc(before, byID)
	slices.SortFunc(after, byID)
	last := int64(math.MinInt64) // id of after
	both := before[:0]           // of the items in both, where they stood and stand
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(before) == 0 || len(after) > 0 && after[0].id < before[0].id:
			if after[0].id == last {
				c.Copies++
			} else {
				c.Added++
				c.AddedNames = named(c.AddedNames, to, after[0])
			}
			last, after = after[0].id, after[1:]
			continue
		case len(after) == 0 || before[0].id < after[0].id:
			c.Removed++
			c.RemovedNames = named(c.RemovedNames, from, before[0])
			before = before[1:]
			continue
		}
		a, b := before[0], after[0]
		if x, y := from[a.from:a.to], to[b.from:b.to]; !bytes.Equal(x, y) {
			c.Changed++
			c.ChangedNames = named(c.ChangedNames, to, b)
			c.Fields = differing(c.Fields, x, y)
		}
		last, before, after = a.id, before[1:], after[1:]
		both = append(both, entry{from: a.from, to: b.from})
	}
	slices.SortFunc(both, func(a, b entry) int { return cmp.Compare(a.from, b.from) })
	if others := slices.DeleteFunc(slices.Clone(c.Fields), func(field string) bool { return strings.HasSuffix(field, "updated_at") }); len(others) > 0 {
		c.Fields = others // with each of which it changes
	}
	c.Moved = !slices.IsSortedFunc(both, func(a, b entry) int { return cmp.Compare(a.to, b.to) })
	return c
}

// named adds the name of an item: its first name or title that is not empty.
func named(names []string, doc []byte, e entry) []string {
	if len(names) == maxNames {
		return names
	}
	name := fmt.Sprintf("id %d", e.id)
	for field, value := range members(doc[e.from:e.to]) {
		if field != "name" && !strings.HasPrefix(field, "title") || len(value) <= len(`""`) || value[0] != '"' {
			continue
		}
		text, _ := jsontext.AppendUnquote(nil, value)
		name = sanitize.Clip(string(text), maxName)
		break
	}
	return append(names, name)
}

// differing adds the fields that differ between two items, those of related objects with their path:
// address.city.name.
func differing(fields []string, x, y []byte) []string {
	var a, b any
	if json.Unmarshal(x, &a) != nil || json.Unmarshal(y, &b) != nil {
		return fields
	}
	for field := range members(y) { // in the documented order
		before, _ := a.(map[string]any)
		after, _ := b.(map[string]any)
		fields = within(fields, field, before[field], after[field])
	}
	return fields
}

func within(fields []string, path string, a, b any) []string {
	before, isObject := a.(map[string]any)
	after, both := b.(map[string]any)
	if isObject && both {
		for _, name := range slices.Sorted(maps.Keys(after)) {
			fields = within(fields, path+"."+name, before[name], after[name])
		}
		return fields
	}
	list, isList := a.([]any)
	other, both := b.([]any)
	if isList && both && len(list) == len(other) && len(list) > 0 && isObjects(list) {
		for i := range list {
			fields = within(fields, path, list[i], other[i])
		}
		return fields
	}
	if !reflect.DeepEqual(a, b) && !slices.Contains(fields, path) {
		fields = append(fields, path)
	}
	return fields
}

func isObjects(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool { _, is := v.(map[string]any); return !is })
}

// members iterates over the fields of an item.
func members(item []byte) func(yield func(string, jsontext.Value) bool) {
	return func(yield func(string, jsontext.Value) bool) {
		d := jsontext.NewDecoder(bytes.NewBuffer(item), jsontext.AllowDuplicateNames(true))
		_, _ = d.ReadToken()
		for d.PeekKind() == '"' {
			name, _ := d.ReadToken()
			field := name.String()
			if value, err := d.ReadValue(); err != nil || !yield(field, value) {
				return
			}
		}
	}
}
