package guard

import "time"

// Kind names a difference, or something odd. It is short and fixed, fit for a metric.
type Kind string

// The kinds of findings.
const (
	Emptied  Kind = "emptied"  // a list has no items left
	Shrunk   Kind = "shrunk"   // a list lost more than a share of its ids
	Vanished Kind = "vanished" // a text, relation or flag is gone from nearly all items
	Replaced Kind = "replaced" // a list has no id in common with before
	Repeated Kind = "repeated" // ids that an earlier item of the list has
	Dropped  Kind = "dropped"  // items came, and the mapping made none of them
	Language Kind = "language" // links of one language in the field of another

	// What the fetch itself finds.
	Drafts     Kind = "drafts"     // items that the CMS marks as unpublished
	Unpaged    Kind = "unpaged"    // a list whose answer shows that there is more, without configured paging
	Unsteady   Kind = "unsteady"   // a list that changed while it was read, in each walk
	Miscounted Kind = "miscounted" // a list of which more came than its total
	Unrelated  Kind = "unrelated"  // related objects and lists that did not come, or that no item has once it is mapped
	Blank      Kind = "blank"      // a text that no item has, although the CMS sent it
	Dangling   Kind = "dangling"   // relations to items that the CMS did not send: removed, or not published
	Garbled    Kind = "garbled"    // texts with U+FFFD for bytes that are not UTF-8, or for half of an emoji
)

// Warnings returns the kinds of which a content warning can be.
func Warnings() []Kind {
	return []Kind{Emptied, Shrunk, Vanished, Replaced, Repeated, Dropped, Language, Drafts, Unpaged, Unsteady, Miscounted, Unrelated, Blank, Dangling, Garbled}
}

// Verdict is what a finding means for the document.
type Verdict string

// The verdicts.
const (
	UntilAccepted Verdict = "until_accepted" // held back until an operator accepts it, or the stale window ends
	ForHold       Verdict = "for_hold"       // held back for guard.hold
	Served        Verdict = "served"         // served with a content warning
)

// A row of the table finds something in a list, or a field of it, if at least so many had it, and
// fewer than a share of them, or none, are left.
type row struct {
	kind    Kind
	verdict Verdict
	of      func(before, now *List) []count
	least   int     // of what was there
	had     float64 // the share of the items that had it, at least
	left    float64 // fewer than this share are left, or none
}

// count is what a row counts: of all so many had it, and of all so many have it now.
type count struct {
	field      Field
	before, of int
	after, all int
}

// shrink stands in the table for the share that guard.shrink leaves.
const shrink = -1

// table says what a difference means: the same for all documents. The first row that finds something
// about a list, or a field, counts.
var table = []row{
	{kind: Emptied, verdict: UntilAccepted, of: permanent, least: 2},
	{kind: Emptied, verdict: ForHold, of: items, least: 2},
	{kind: Shrunk, verdict: ForHold, of: ids, least: 10, left: shrink},
	{kind: Vanished, verdict: ForHold, of: fields, least: 3, had: 0.5, left: 0.1},
	{kind: Emptied, verdict: Served, of: items, least: 1},
	{kind: Replaced, verdict: Served, of: shared, least: 10},
	{kind: Repeated, verdict: Served, of: distinct, least: 1, left: 1},
	{kind: Dropped, verdict: Served, of: received, least: 2},
	{kind: Language, verdict: Served, of: links, least: 1, left: 0.5},
}

func permanent(b, n *List) []count {
	if !n.Permanent {
		return nil
	}
	return items(b, n)
}

func items(b, n *List) []count { return one(b.Items, n.Items) }

func ids(b, n *List) []count { return one(len(b.IDs), len(n.IDs)) }

func distinct(_, n *List) []count { return one(n.Items, len(n.IDs)) }

func received(_, n *List) []count { return one(n.Received, n.Items) }

// shared counts the ids that were there before, if there were any.
func shared(b, n *List) []count {
	if len(b.IDs) == 0 {
		return nil
	}
	return one(len(n.IDs), common(b.IDs, n.IDs))
}

// fields are all but those below a relation that is gone.
func fields(b, n *List) (all []count) {
	gone := map[string]bool{}
	for i, f := range n.Fields {
		if n.Items == 0 || f.Kind == Foreign {
			continue
		}
		if c := (count{f, b.With[i], b.Items, n.With[i], n.Items}); !gone[parentOf(f.Name)] {
			all = append(all, c)
		}
		gone[f.Name] = n.With[i] == 0 || gone[parentOf(f.Name)]
	}
	return all
}

// links are those in each field for a language, and of these those of its own language.
func links(_, n *List) (all []count) {
	for i, f := range n.Fields {
		if f.Kind == Foreign {
			of := n.With[n.index(f.Name)]
			all = append(all, count{f, of, of, of - n.With[i], of})
		}
	}
	return all
}

func one(before, after int) []count {
	return []count{{before: before, after: after, of: before, all: before}}
}

// common is how many numbers two ascending lists have in common.
func common(a, b []int64) (n int) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			a = a[1:]
		case a[0] > b[0]:
			b = b[1:]
		default:
			n, a, b = n+1, a[1:], b[1:]
		}
	}
	return n
}

// Policy is what the guard may do. The zero value holds nothing back.
type Policy struct {
	Shrink float64       // the share of its ids that a list may lose; with 0 nothing is held back
	Hold   time.Duration // for how long documents are held back; with 0 only until they are accepted
}

// allows reports whether a verdict can be passed.
func (p Policy) allows(v Verdict) bool {
	return v == Served || p.Shrink > 0 && (v == UntilAccepted || p.Hold >= time.Millisecond)
}

// Judge compares a document with the one that it would replace, or nil. Findings come in the order
// of the document.
func (p Policy) Judge(before, now Survey) (all Findings) {
	for i := range now {
		n := &now[i]
		b := &List{With: make([]int, len(n.Fields))}
		if len(before) == len(now) {
			b = &before[i]
		}
		seen := map[string]bool{}
		for _, r := range table {
			if !p.allows(r.verdict) {
				continue
			}
			for _, c := range r.of(b, n) {
				if !r.finds(c, p.Shrink) || r.verdict != Served && seen[c.field.Name] {
					continue
				}
				seen[c.field.Name] = true
				all = append(all, Finding{
					List: n.Path, Kind: r.kind, Field: c.field.Name, Flag: c.field.Kind == Flag,
					Before: c.before, After: c.after, Items: n.Items, Verdict: r.verdict,
				})
			}
		}
	}
	return all
}

// finds reports whether a row finds something in a count.
func (r row) finds(c count, share float64) bool {
	left := r.left
	if left == shrink {
		left = 1 - share
	}
	const rounding = 1e-9
	few := c.after == 0 || float64(c.after)+rounding < left*float64(c.all)
	return few && c.before >= r.least && float64(c.before) >= r.had*float64(c.of)
}
