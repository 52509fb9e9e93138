package upstream

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"vitrine/upstream/guard"
	"vitrine/upstream/list"
	"vitrine/upstream/shape"
)

// warnings finds what is odd about a document that was fetched, beside the one that is served. What
// the CMS confirms is as odd as it was.
func warnings(r shape.Resource, served Held, got list.Result, now shape.Document) guard.Findings {
	if got.NotModified {
		return served.Warnings
	}
	found := slices.Clone(got.Warnings)
	warn := func(f guard.Finding) {
		f.Verdict = guard.Served
		found = append(found, f)
	}
	for _, odd := range []struct {
		kind guard.Kind
		is   shape.Repair
	}{{guard.Dangling, got.Missing.Plus(now.Dangling)}, {guard.Garbled, got.Garbled}, {guard.Unrelated, now.Unrelated}} {
		if odd.is.Count > 0 {
			warn(guard.Finding{List: string(r), Kind: odd.kind, Before: odd.is.Count, Shown: strings.Join(odd.is.Paths, ", ")})
		}
	}
	for _, l := range now.Survey {
		for _, f := range lacking(got, &l) {
			warn(f)
		}
	}
	for _, f := range served.Other.Judge(served.Survey, now.Survey).Held() {
		if f.Kind != guard.Emptied { // which is a warning in any case
			warn(f)
		}
	}
	return append(found, guard.Policy{}.Judge(served.Survey, now.Survey)...).Follow(served.Warnings, now.Survey)
}

// receive notes how many items came for each list of a document, where that is known. What came for
// a document that a program made of parts with names of their own counts if it made nothing of all.
func receive(got list.Result, doc *shape.Document) {
	all, own := 0, false
	for path, n := range got.Received {
		all += n
		own = own || slices.ContainsFunc(doc.Survey, func(l guard.List) bool { return l.Path == path })
	}
	for i := range doc.Survey {
		l := &doc.Survey[i]
		if n, known := got.Received[l.Path]; known {
			l.Received = n
		} else if !own && doc.Items == 0 {
			l.Received = all
		}
	}
}

// leastItems is how many items a list needs for a field that none of them has to be odd.
const leastItems = 2

// lacking finds the texts of a mapped list that no item has although the CMS sent them, and the
// relations that no item has, unless the CMS sent them empty. A program that makes an object of what
// is missing makes null of it, which looks like a relation without content.
func lacking(got list.Result, l *guard.List) (found []guard.Finding) {
	received := receivedOf(got, l.Path)
	if l.Items < leastItems || len(received) == 0 {
		return nil
	}
	texts, relations := l.Empty()
	for _, field := range texts {
		if _, content := sent(received, strings.Split(field, ".")); content {
			found = append(found, guard.Finding{List: l.Path, Kind: guard.Blank, Field: field, Before: l.Items, Items: l.Items})
		}
	}
	for _, field := range relations {
		if came, content := sent(received, strings.Split(field, ".")); content || !came {
			found = append(found, guard.Finding{List: l.Path, Kind: guard.Unrelated, Before: l.Items, Shown: l.Path + "[]." + field})
		}
	}
	return found
}

// receivedOf are the first items of the part that a list was made of, as they came: of all parts if
// it was made by a program of the whole.
func receivedOf(got list.Result, path string) (items []any) {
	own := func(s list.Sample) bool { return s.Path == path }
	for _, s := range got.Samples {
		if own(s) || !slices.ContainsFunc(got.Samples, own) {
			for _, raw := range s.Received {
				var item any
				if json.Unmarshal(raw, &item) != nil {
					continue
				}
				object, _ := item.(map[string]any)
				if members, ok := object[path[strings.LastIndexByte(path, '.')+1:]].([]any); ok && !own(s) { // an object of the lists
					items = append(items, members...)
				} else {
					items = append(items, item)
				}
			}
		}
	}
	return items
}

// sent reports whether any of the values has the member of that path, and whether it has content.
// If the value has no such member, it may stand in an object within: attributes, expand.
func sent(values []any, path []string) (came, content bool) {
	if len(path) == 0 {
		return len(values) > 0, slices.ContainsFunc(values, hasContent)
	}
	var next []any
	for _, v := range values {
		object, _ := v.(map[string]any)
		places := []any{v}
		if _, own := object[path[0]]; !own {
			places = slices.AppendSeq(places, maps.Values(object))
		}
		for _, within := range places {
			inner, _ := within.(map[string]any)
			member, ok := inner[path[0]]
			switch all, isList := member.([]any); {
			case isList && len(path) > 1:
				next = append(next, all...)
			case ok:
				next = append(next, member)
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
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), hasContent)
	}
	return true
}
