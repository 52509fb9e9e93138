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
	before, after := items(r, from), items(r, to)
	for i, list := range r.row().parts() {
		if c := compare(list.name, before[i], after[i]); c.Added+c.Removed+c.Changed+c.Copies > 0 || c.Moved {
			all = append(all, c)
		}
	}
	return all
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
// and read side by side. The words are in the order of the ids.
func compare(list string, before, after []item) Change {
	c := Change{List: list}
	for _, all := range []*[]item{&before, &after} {
		*all = slices.DeleteFunc(*all, func(i item) bool { return i.json.Kind() != '{' })
		slices.SortFunc(*all, func(a, b item) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.at, b.at)) })
	}
	last := int64(math.MinInt64)                            // id of after
	both := make([][2]int, 0, min(len(before), len(after))) // where the items in both stood, and stand
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(before) == 0 || len(after) > 0 && after[0].id < before[0].id:
			if after[0].id == last {
				c.Copies++
			} else {
				c.Added++
				c.AddedNames = named(c.AddedNames, after[0])
			}
			last, after = after[0].id, after[1:]
			continue
		case len(after) == 0 || before[0].id < after[0].id:
			c.Removed++
			c.RemovedNames = named(c.RemovedNames, before[0])
			before = before[1:]
			continue
		}
		a, b := before[0], after[0]
		if !bytes.Equal(a.json, b.json) {
			c.Changed++
			c.ChangedNames = named(c.ChangedNames, b)
			c.Fields = differing(c.Fields, a.json, b.json)
		}
		last, before, after = a.id, before[1:], after[1:]
		both = append(both, [2]int{a.at, b.at})
	}
	slices.SortFunc(both, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	if others := slices.DeleteFunc(slices.Clone(c.Fields), func(field string) bool { return strings.HasSuffix(field, "updated_at") }); len(others) > 0 {
		c.Fields = others // with each of which it changes
	}
	c.Moved = !slices.IsSortedFunc(both, func(a, b [2]int) int { return cmp.Compare(a[1], b[1]) })
	return c
}

// named adds the name of an item: its first name or title that is not empty.
func named(names []string, i item) []string {
	if len(names) == maxNames {
		return names
	}
	name := fmt.Sprintf("id %d", i.id)
	for field, value := range members(new(jsontext.Decoder), i.json) {
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
	for field := range members(new(jsontext.Decoder), y) { // in the documented order
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
