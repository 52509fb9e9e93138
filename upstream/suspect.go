package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"vitrine/upstream/list"
	"vitrine/upstream/shape"
)

// A Suspicion is something about a document that is served, since the CMS may mean it, but that
// somebody should look at.
type Suspicion struct {
	Kind  SuspicionKind `json:"kind"`
	Path  string        `json:"path"`            // of its subject: "catalogue.gallery"
	Count int           `json:"count"`           // number of items: those that are gone, the drafts, those received
	Shown string        `json:"shown,omitempty"` // the reason
}

// SuspicionKind is the kind of a suspicion.
type SuspicionKind string

const (
	// Emptied is an empty list that had items when it was last seen.
	Emptied SuspicionKind = "emptied"
	// Drafts are items that the CMS marks as unpublished.
	Drafts SuspicionKind = "drafts"
	// Unpaged is a list whose response shows that there is more, without configured paging.
	Unpaged SuspicionKind = "unpaged"
	// Unrelated are related objects and lists that did not come, not even as null or empty; or that no
	// item has once it is mapped, unless they came as null or empty.
	Unrelated SuspicionKind = "unrelated"
	// Blank is a text that no item of a list has, although the CMS sent it.
	Blank SuspicionKind = "blank"
	// Repeated are ids that an earlier item of the list has.
	Repeated SuspicionKind = "repeated"
)

// SuspicionKinds returns all kinds.
func SuspicionKinds() []SuspicionKind {
	return []SuspicionKind{Emptied, Drafts, Unpaged, Unrelated, Blank, Repeated}
}

func (s Suspicion) String() string {
	switch s.Kind {
	case Emptied:
		return fmt.Sprintf("%s: empty now, had %d items before", s.Path, s.Count)
	case Drafts:
		return fmt.Sprintf("%s: %d marked as unpublished", s.Path, s.Count)
	case Unrelated:
		return fmt.Sprintf("%s: %d relations are missing (not expanded, or not permitted?): %s", s.Path, s.Count, s.Shown)
	case Blank:
		return fmt.Sprintf("%s: %s is empty in all %d items, though the CMS sent it (see map)", s.Path, s.Shown, s.Count)
	case Repeated:
		return fmt.Sprintf("%s: %d ids are not unique", s.Path, s.Count)
	case Unpaged:
		return fmt.Sprintf("%s: %d items taken for all, though the answer has %s (see paging)", s.Path, s.Count, s.Shown)
	}
	return string(s.Kind)
}

// suspect finds what is suspicious about a fetch beside the copy held, of which the known is. What
// the CMS confirms is as suspicious as it was.
func suspect(r shape.Resource, held []byte, known []Suspicion, got list.Result, now shape.Document) (found []Suspicion) {
	if got.NotModified {
		return known
	}
	if got.Drafts > 0 {
		found = append(found, Suspicion{Kind: Drafts, Path: string(r), Count: got.Drafts})
	}
	if now.Unrelated > 0 {
		found = append(found, Suspicion{Kind: Unrelated, Path: string(r), Count: now.Unrelated, Shown: strings.Join(now.UnrelatedPaths, ", ")})
	}
	found = append(found, doubts(r, got, now)...)
	for _, u := range got.Unpaged {
		found = append(found, Suspicion{Kind: Unpaged, Path: u.Path, Count: u.Items, Shown: u.Shown})
	}
	return append(found, emptied(r, held, known, now.Lists)...)
}

// emptied finds the lists without items that have some in the copy held. Such a list is reported as
// long as it stays empty.
func emptied(r shape.Resource, held []byte, known []Suspicion, now []shape.List) (found []Suspicion) {
	isEmpty := func(path string) bool { return slices.Contains(now, shape.List{Path: path}) }
	if !slices.ContainsFunc(now, func(l shape.List) bool { return l.Items == 0 }) {
		return nil
	}
	before, err := shape.CountLists(r, held)
	if err != nil {
		return nil // nothing is held
	}
	for _, b := range before {
		if b.Items > 0 && isEmpty(b.Path) {
			found = append(found, Suspicion{Kind: Emptied, Path: b.Path, Count: b.Items})
		}
	}
	for _, s := range known {
		if s.Kind == Emptied && isEmpty(s.Path) {
			found = append(found, s)
		}
	}
	return found
}

// leastItems is how many items a list needs for a field that none of them has to be suspicious.
const leastItems = 2

// doubts finds what is suspicious about the lists of a document that was mapped: ids that are not
// unique, texts that no item has although the CMS sent them, and relations that no item has, unless
// the CMS sent them empty. A program that makes an object of what is missing makes null of it,
// which looks like a relation without content.
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

// receivedOf are the first items of the part that a list was made of, as they came: of all parts if
// it was made by a program of the whole.
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

// sent reports whether any of the values has the member of that path, and whether it has content.
// The member may stand in an object within: attributes, expand.
func sent(values []any, path []string) (came, content bool) {
	if len(path) == 0 {
		return len(values) > 0, slices.ContainsFunc(values, hasContent)
	}
	var next []any
	for _, v := range values {
		object, _ := v.(map[string]any)
		for _, within := range slices.AppendSeq([]any{v}, maps.Values(object)) {
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
