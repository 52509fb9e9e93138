package upstream

import (
	"fmt"
	"slices"
	"sync"

	"vitrine/upstream/list"
	"vitrine/upstream/shape"
)

// A Suspicion is something about a document that is served all the same, since the CMS may well
// mean it, but that somebody should look at.
type Suspicion struct {
	Kind  SuspicionKind `json:"kind"`
	Path  string        `json:"path"`            // of what it is about: "catalogue.gallery"
	Count int           `json:"count"`           // how many items: those that are gone, the drafts, those that came
	Shown string        `json:"shown,omitempty"` // by what it was noticed
}

// SuspicionKind is what may be wrong.
type SuspicionKind string

const (
	// Emptied is a list that held something when it was last seen.
	Emptied SuspicionKind = "emptied"
	// Drafts are items that the CMS marks as not published.
	Drafts SuspicionKind = "drafts"
	// Unpaged is a list whose answer shows that there is more, while nothing says how it goes on.
	Unpaged SuspicionKind = "unpaged"
)

// SuspicionKinds returns all kinds.
func SuspicionKinds() []SuspicionKind { return []SuspicionKind{Emptied, Drafts, Unpaged} }

func (s Suspicion) String() string {
	switch s.Kind {
	case Emptied:
		return fmt.Sprintf("%s: empty now, and held %d", s.Path, s.Count)
	case Drafts:
		return fmt.Sprintf("%s: %d marked as not published in what came", s.Path, s.Count)
	case Unpaged:
		return fmt.Sprintf("%s: %d items taken for all, though the answer has %s (see paging)", s.Path, s.Count, s.Shown)
	}
	return string(s.Kind)
}

// lists remembers how long each list of a document was.
type lists struct {
	mu   sync.Mutex
	seen map[shape.Resource][]shape.List // of the latest document
}

func newLists() *lists { return &lists{seen: make(map[shape.Resource][]shape.List)} }

// suspect compares a fetch with the document before. A list is reported once, when it becomes
// empty, not for as long as it stays so.
func (l *lists) suspect(r shape.Resource, got list.Result, now shape.Document) (found []Suspicion) {
	if got.Drafts > 0 {
		found = append(found, Suspicion{Kind: Drafts, Path: string(r), Count: got.Drafts})
	}
	if got.NotModified {
		return found
	}
	for _, u := range got.Unpaged {
		found = append(found, Suspicion{Kind: Unpaged, Path: u.Path, Count: u.Items, Shown: u.Shown})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, before := range l.seen[r] {
		empty := slices.Contains(now.Lists, shape.List{Path: before.Path})
		if before.Items > 0 && empty {
			found = append(found, Suspicion{Kind: Emptied, Path: before.Path, Count: before.Items})
		}
	}
	l.seen[r] = now.Lists
	return found
}

// Recall tells the client of a document that was fetched before, by another process perhaps: the
// next one is compared with it. Body is one that [shape.Normalize] made; any other is not looked
// at.
func (c *Client) Recall(r shape.Resource, body []byte) {
	document, err := shape.Normalize(r, body)
	if err != nil {
		return
	}
	c.lists.mu.Lock()
	defer c.lists.mu.Unlock()
	c.lists.seen[r] = document.Lists
}
