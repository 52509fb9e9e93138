package guard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// Finding is one difference between a document and the one that it would replace, or something odd
// in it. It has a form in JSON, in which it stands in Redis.
type Finding struct {
	List         string  `json:"path"` // catalogue.artwork
	Kind         Kind    `json:"kind"`
	Field        string  `json:"field,omitempty"` // address.city; empty for the items themselves
	Flag         bool    `json:"flag,omitempty"`  // which is a boolean
	Before       int     `json:"before"`          // how many there were: items, or items that had the field; see the table
	After        int     `json:"after"`           // how many there are
	Items        int     `json:"items"`           // items of the new list
	Shown        string  `json:"shown,omitempty"` // the evidence, as the CMS sent it
	Verdict      Verdict `json:"verdict"`
	Acknowledged bool    `json:"acknowledged,omitempty"` // by an operator: not shown any more
}

// String is one clause: "no artworks, 290 before", "tag is empty in all 20 galleries, 18 had it".
func (f Finding) String() string {
	noun := Noun(f.List, f.Items)
	lack := fmt.Sprintf("all %d %s", f.Items, noun)
	if f.After > 0 {
		lack = fmt.Sprintf("%d of %d %s", f.Items-f.After, f.Items, noun)
	}
	switch f.Kind {
	case Emptied:
		return fmt.Sprintf("no %s, %d before", noun, f.Before)
	case Shrunk:
		return fmt.Sprintf("%d %s, %d before", f.After, Noun(f.List, f.After), f.Before)
	case Vanished:
		if f.Flag {
			return fmt.Sprintf("%s is false in %s, true in %d before", f.Field, lack, f.Before)
		}
		return fmt.Sprintf("%s is empty in %s, %d had it", f.Field, lack, f.Before)
	case Replaced:
		return fmt.Sprintf("none of %d %s was there before", f.Items, noun)
	case Repeated:
		return fmt.Sprintf("%d of %d ids are not unique", f.Before-f.After, f.Before)
	case Dropped:
		return english.Plural(f.Before, "item", "") + " received and none made (see map)"
	case Language:
		return fmt.Sprintf("%d of %d links in %s are of another language", f.Before-f.After, f.Before, f.Field)
	case Drafts:
		return fmt.Sprintf("%d marked as unpublished", f.Before)
	case Unpaged:
		return fmt.Sprintf("%d items taken for all, though the answer has %s (see paging)", f.Items, f.Shown)
	case Unsteady:
		return fmt.Sprintf("%d distinct items of a list that changed while it was read: %s", f.Items, f.Shown)
	case Miscounted:
		return fmt.Sprintf("%s received, though the total is %s", english.Plural(f.Items, "item", ""), f.Shown)
	case Unrelated:
		return fmt.Sprintf("%s missing (not expanded, or not permitted?): %s", english.Plural(f.Before, "relation is", "relations are"), f.Shown)
	case Dangling:
		return fmt.Sprintf("%s to items that the CMS did not send: %s", english.Plural(f.Before, "relation leads", "relations lead"), f.Shown)
	case Garbled:
		return fmt.Sprintf("%s not Unicode, with U+FFFD for what is not: %s", english.Plural(f.Before, "text is", "texts are"), f.Shown)
	case Blank:
		return fmt.Sprintf("%s is empty in all %d items, though the CMS sent it (see map)", f.Field, f.Items)
	}
	return string(f.Kind)
}

// Warning is String with the list before it.
func (f Finding) Warning() string { return f.List + ": " + f.String() }

// Findings are those of one document.
type Findings []Finding

// Held returns those for which the document is held back.
func (all Findings) Held() Findings {
	return all.where(func(f Finding) bool { return f.Verdict != Served })
}

// Shrunk returns those about lists that lost items, which alone count beside an older version.
func (all Findings) Shrunk() Findings {
	return all.where(func(f Finding) bool { return f.Kind == Shrunk })
}

// Standing returns those with which the document is served, but for those acknowledged.
func (all Findings) Standing() Findings {
	return all.where(func(f Finding) bool { return f.Verdict == Served && !f.Acknowledged })
}

func (all Findings) where(is func(Finding) bool) Findings {
	return slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return !is(f) })
}

// Lasting reports whether time does not make it likelier to be meant: it is held back until it is
// accepted.
func (all Findings) Lasting() bool {
	return slices.ContainsFunc(all, func(f Finding) bool { return f.Verdict == UntilAccepted })
}

// Acknowledge marks them all as known to an operator.
func (all Findings) Acknowledge() Findings {
	all = slices.Clone(all)
	for i := range all {
		all[i].Acknowledged = true
	}
	return all
}

// lasting are the kinds of differences that are shown until they are acknowledged.
var lasting = []Kind{Replaced, Shrunk, Vanished}

// Follow are the warnings of a document that is fetched after one that has others: what stands until
// it is acknowledged is still there, and what is acknowledged stays so unless it became worse.
func (all Findings) Follow(others Findings, now Survey) Findings {
	all = slices.Clone(all)
	for _, o := range others {
		same := func(f Finding) bool {
			return f.List == o.List && f.Kind == o.Kind && f.Field == o.Field && f.Shown == o.Shown
		}
		i := slices.IndexFunc(all, same)
		lists := func(empty bool) bool {
			return slices.ContainsFunc(now, func(l List) bool { return l.Path == o.List && (l.Items == 0) == empty })
		}
		switch {
		case i >= 0:
			all[i].Acknowledged = o.Acknowledged && all[i].Before-all[i].After <= o.Before-o.After
		case o.Kind == Emptied && lists(true), slices.Contains(lasting, o.Kind) && lists(false) && !o.Acknowledged:
			all = append(all, o)
		}
	}
	return all
}

// mostSaid is how many findings are written out.
const mostSaid = 4

// String is all of them in one line.
func (all Findings) String() string {
	var said []string
	for i, f := range all {
		if i == mostSaid {
			said = append(said, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		said = append(said, f.String())
	}
	return strings.Join(said, "; ")
}

// Worse reports whether all has a loss that before does not have, or a greater one of the same list
// or field.
func (all Findings) Worse(before Findings) bool {
	return slices.ContainsFunc(all.Held(), func(f Finding) bool {
		return !slices.ContainsFunc(before.Held(), f.coveredBy)
	})
}

// coveredBy reports whether b is the same loss, or a greater one.
func (f Finding) coveredBy(b Finding) bool {
	switch {
	case b.List != f.List:
		return false
	case b.Kind == Emptied:
		return true
	case b.Field == f.Field:
		return b.After <= f.After
	}
	return b.Field != "" && b.After == 0 && strings.HasPrefix(f.Field, b.Field+".")
}
