package upstream

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"vitrine/upstream/list"
	"vitrine/upstream/shape"
)

// leastItems is how many items a list needs for a field that none of them has to be suspicious.
const leastItems = 2

// doubts finds what is suspicious about the lists of a document that was mapped: ids that are not
// unique, texts that no item has although the CMS sent them, and relations that no item has, unless
// the CMS sent them empty. A program that makes an object of what is missing makes null of it, which
// looks like a relation without content.
func doubts(r shape.Resource, got list.Result, doc shape.Document) (found []Suspicion) {
	counts, err := shape.CountLists(r, doc.Body)
	if err != nil {
		return nil // it was just normalized
	}
	for _, c := range counts {
		if c.Repeated > 0 {
			found = append(found, Suspicion{Kind: Repeated, Path: c.Path, Count: c.Repeated})
		}
		if received := receivedOf(got, c.Path); c.Items >= leastItems && len(received) > 0 {
			texts, relations := c.Empty()
			for _, field := range texts {
				if _, content := sent(received, strings.Split(field, ".")); content {
					found = append(found, Suspicion{Kind: Blank, Path: c.Path, Count: c.Items, Shown: field})
				}
			}
			for _, field := range relations {
				if came, content := sent(received, strings.Split(field, ".")); content || !came {
					found = append(found, Suspicion{Kind: Unrelated, Path: c.Path, Count: c.Items, Shown: fmt.Sprintf("%s[].%s", c.Path, field)})
				}
			}
		}
	}
	return found
}

// receivedOf are the first items of the part that a list was made of, as they came: of all parts if it
// was made by a program of the whole.
func receivedOf(got list.Result, path string) (items []any) {
	own := func(s list.Sample) bool { return s.Path == path }
	for _, s := range got.Samples {
		if own(s) || !slices.ContainsFunc(got.Samples, own) {
			for _, raw := range s.Received {
				var item any
				if json.Unmarshal(raw, &item) == nil {
					items = append(items, item)
				}
			}
		}
	}
	return items
}

// sent reports whether any of the values has the member of that path, and whether it has content. The
// member may stand in an object within: attributes, expand.
func sent(values []any, path []string) (came, content bool) {
	if len(path) == 0 {
		return len(values) > 0, slices.ContainsFunc(values, hasContent)
	}
	var next []any
	add := func(v any) {
		if all, ok := v.([]any); ok && len(path) > 1 {
			next = append(next, all...)
		} else {
			next = append(next, v)
		}
	}
	for _, v := range values {
		object, _ := v.(map[string]any)
		if member, ok := object[path[0]]; ok {
			add(member)
		}
		for _, within := range object {
			if inner, ok := within.(map[string]any); ok {
				if member, ok := inner[path[0]]; ok {
					add(member)
				}
			}
		}
	}
	return sent(next, path[1:])
}

// hasContent reports whether a value is more than null, "", an empty list, or an object of such.
func hasContent(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		for _, member := range v {
			if hasContent(member) {
				return true
			}
		}
		return false
	}
	return true
}
