package upstream

import (
	"fmt"
	"slices"
	"strings"
	"sync"

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
	// Unrelated are related objects and lists that did not come, not even as null or empty.
	Unrelated SuspicionKind = "unrelated"
)

// SuspicionKinds returns all kinds.
func SuspicionKinds() []SuspicionKind { return []SuspicionKind{Emptied, Drafts, Unpaged, Unrelated} }

func (s Suspicion) String() string {
	switch s.Kind {
	case Emptied:
		return fmt.Sprintf("%s: empty now, had %d items before", s.Path, s.Count)
	case Drafts:
		return fmt.Sprintf("%s: %d marked as unpublished", s.Path, s.Count)
	case Unrelated:
		return fmt.Sprintf("%s: %d relations are missing (not expanded, or not permitted?): %s", s.Path, s.Count, s.Shown)
	case Unpaged:
		return fmt.Sprintf("%s: %d items taken for all, though the answer has %s (see paging)", s.Path, s.Count, s.Shown)
	}
	return string(s.Kind)
}

// suspect compares a fetch with the previous document, whose lists it keeps. A list is reported once,
// when it becomes empty, not as long as it stays empty.
func suspect(lists *sync.Map, r shape.Resource, got list.Result, now shape.Document) (found []Suspicion) {
	if got.Drafts > 0 {
		found = append(found, Suspicion{Kind: Drafts, Path: string(r), Count: got.Drafts})
	}
	if got.NotModified {
		return found
	}
	if now.Unrelated > 0 {
		found = append(found, Suspicion{Kind: Unrelated, Path: string(r), Count: now.Unrelated, Shown: strings.Join(now.UnrelatedPaths, ", ")})
	}
	for _, u := range got.Unpaged {
		found = append(found, Suspicion{Kind: Unpaged, Path: u.Path, Count: u.Items, Shown: u.Shown})
	}
	last, _ := lists.Swap(r, now.Lists)
	held, _ := last.([]shape.List) // none at first
	for _, before := range held {
		if before.Items > 0 && slices.Contains(now.Lists, shape.List{Path: before.Path}) {
			found = append(found, Suspicion{Kind: Emptied, Path: before.Path, Count: before.Items})
		}
	}
	return found
}
