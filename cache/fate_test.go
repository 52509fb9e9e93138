package cache

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"vitrine/cache/lease"
	"vitrine/cache/watch"
)

// A history is what happened to one resource in Redis, and one replica's copy of it, with the truth
// beside it: whether the copy was purged. Everything that can happen next is tried (see step): what
// clients and other replicas do, crashes with and without the data, a server that is exchanged
// before the session notices, a session that is back before the look, loads that take time, and
// what Redis does not get of them.
type history struct {
	books, hash, savedBooks, savedHash state // what Redis holds, and a snapshot of it
	saved                              bool
	copy, load                         replicaCopy
	sets, clock                        int
	link                               string // up, back (not looked yet), ghost (exchanged, unnoticed), cut, restarted
}

// A state is one of the two hashes: the set it belongs to (0: there is none), its number, and when
// its document was fetched (0: a stub).
type state struct{ set, seq, at int }

// A replicaCopy is a copy, or a load: when its fetch began, where it was confirmed, what was
// received since, and what truly happened since.
type replicaCopy struct {
	exists         bool
	began          int
	was            lease.Place
	since          watch.Received
	stored, alone  bool
	purged, givenU bool // givenU: by a purge that the contract gives up
}

func (h *history) place() lease.Place {
	books := h.books
	if books.set == 0 {
		books = h.hash // rebuilt from it
	}
	if books.set == 0 {
		return lease.Place{Holds: lease.Nothing}
	}
	p := lease.Place{Set: fmt.Sprint(books.set), Seq: int64(books.seq), Holds: lease.Nothing}
	if h.hash.set == books.set && h.hash.seq == books.seq {
		if p.Holds = lease.Stub; h.hash.at > 0 {
			p.Holds = lease.Document
		}
	}
	return p
}

func (h *history) receives() bool { return h.link == "up" || h.link == "back" }

// event is one that a listening replica receives.
func (h *history) event(purge, wide, change, beside, flush bool) {
	givenUp := !h.receives() && wide || h.link == "restarted" || h.link == "ghost" || h.hash.set == 0 || h.hash.at == 0
	for _, c := range []*replicaCopy{&h.copy, &h.load} {
		if !c.exists {
			continue
		}
		c.givenU = c.givenU || purge && givenUp
		c.purged = c.purged || purge && !givenUp
		if h.receives() {
			if change {
				c.since.Changes = min(2, c.since.Changes+1)
				c.since.Named = c.since.Named || !flush
			}
			c.since.Beside, c.since.Flushed = c.since.Beside || beside, c.since.Flushed || flush
		}
	}
}

// part is the loss of the link.
func (h *history) part(restart bool) {
	for _, c := range []*replicaCopy{&h.copy, &h.load} {
		switch {
		case !c.exists:
		case (c.since.Changes > 0 || c.since.Flushed) && (h.receives() || h.link == "ghost"):
			*c = replicaCopy{}
		default:
			if restart && h.link != "up" && c.purged {
				c.purged, c.givenU = false, true
			}
			c.since = watch.Received{Flushed: c.since.Flushed && !h.receives()}
		}
	}
}

// A judge decides as fateOf does.
type judge func(was, now lease.Place, since watch.Received) fate

// look is one that ends, with what it finds wrong.
func (h *history) look(link string, judge judge) (fault string) {
	p := h.place()
	c, fresh := h.copy, replicaCopy{}
	if p.Holds == lease.Document {
		fresh = replicaCopy{exists: true, began: h.hash.at, stored: true}
	}
	h.link = link
	h.copy = fresh
	if c.exists {
		d := decide(held{true, c.origin(), int64(c.began)}, judge(c.was, p, c.since), offer{exists: fresh.exists, fetched: int64(fresh.began)})
		if d.keep {
			if c.purged && !c.givenU {
				fault = fmt.Sprintf("a purged copy (%+v) is kept at %+v", c, p)
			}
			h.copy = c
		} else if !fresh.exists && !c.purged && !c.givenU && !c.alone && !c.since.Flushed && c.was.Holds != lease.Unknown {
			fault = fmt.Sprintf("a copy that nobody purged (%+v) is dropped at %+v", c, p)
		}
	}
	h.copy.was, h.copy.since = p, watch.Received{Listened: true}
	return fault
}

func (c *replicaCopy) origin() origin {
	switch {
	case c.stored:
		return originStored
	case c.alone:
		return originAlone
	}
	return originRefused
}

// steps calls next with everything that can happen.
func (h history) steps(judge judge, next func(name string, h history, fault string)) {
	do := func(name string, f func(h *history)) {
		g := h
		f(&g)
		next(name, g, "")
	}
	if h.hash.set != 0 {
		do("DEL", func(h *history) { h.event(true, false, true, false, false); h.hash = state{} })
	}
	do("FLUSHDB", func(h *history) { h.event(true, true, true, false, true); h.hash, h.books = state{}, state{} })
	if h.books.set != 0 {
		do("DEL of all", func(h *history) {
			h.event(true, true, h.hash.set != 0, true, false)
			h.hash, h.books = state{}, state{}
		})
	}
	if h.receives() {
		do("FLUSHDB of another database", func(h *history) { h.event(false, false, true, false, true) })
	}
	if h.link != "ghost" {
		do("restarts empty", func(h *history) { h.part(true); h.books, h.hash, h.link = state{}, state{}, "restarted" })
		if !h.saved && h.books.set != 0 {
			do("saves", func(h *history) { h.saved, h.savedBooks, h.savedHash = true, h.books, h.hash })
		}
		if h.saved {
			do("restarts from the snapshot", func(h *history) { h.part(true); h.books, h.hash, h.link = h.savedBooks, h.savedHash, "restarted" })
		}
		if h.link == "up" {
			do("is exchanged for an empty one, unnoticed", func(h *history) { h.books, h.hash, h.link = state{}, state{}, "ghost" })
			if h.saved {
				do("is exchanged for an older one, unnoticed", func(h *history) { h.books, h.hash, h.link = h.savedBooks, h.savedHash, "ghost" })
			}
		}
	} else {
		do("is noticed", func(h *history) { h.part(false); h.link = "restarted" })
	}
	books, sets := h.books, h.sets
	if books.set == 0 && h.hash.set != 0 {
		books = h.hash
	}
	if books.set == 0 {
		sets++
		books.set = sets
	}
	books.seq, books.at = books.seq+1, 0
	if books.seq <= 6 && sets <= 3 {
		if h.place().Holds == lease.Nothing {
			do("another's lease", func(h *history) {
				h.event(false, false, true, true, false)
				h.books, h.hash, h.sets = books, books, sets
			})
		} else if h.clock < 9 {
			do("another's fill", func(h *history) {
				h.event(false, false, true, true, false)
				h.clock++
				h.books, h.hash = books, state{books.set, books.seq, h.clock}
			})
		}
	}
	look := func(link string) {
		g := h
		fault := g.look(link, judge)
		next("look", g, fault)
	}
	switch h.link {
	case "cut", "restarted":
		do("listens again", func(h *history) { h.link = "back" })
	case "back":
		look("up")
		do("cut", func(h *history) { h.part(false); h.link = "cut" })
	case "up":
		look("up")
		do("cut", func(h *history) { h.part(false); h.link = "cut" })
	} // a ghost's look waits for an answer to a ping, and the session ends instead
	if h.clock < 9 && !h.load.exists && h.link != "back" {
		do("a load begins", func(h *history) {
			h.clock++
			h.load = replicaCopy{exists: true, began: h.clock, alone: h.link != "up"}
			if h.load.was = h.copy.was; !h.load.alone { // Redis refuses: it was asked
				h.load.was, h.load.since.Listened = h.place(), true
			}
		})
	}
	if h.clock < 9 && h.load.exists {
		do("the load ends", func(h *history) { h.clock++; h.copy, h.load = h.load, replicaCopy{} })
	}
}

// replay goes through all histories of that length, and returns how many states there are, and the
// first with a fault that begins like that.
func replay(judge judge, depth int, like string) (states int, fault string) {
	type reached struct {
		history
		from  *reached // by the event name
		name  string
		depth int
	}
	seen, queue := map[history]bool{}, []*reached{{history: history{link: "up"}}}
	for n := 0; n < len(queue) && fault == ""; n++ {
		at := queue[n]
		if at.depth == depth {
			continue
		}
		at.steps(judge, func(name string, next history, wrong string) {
			if wrong != "" && fault == "" && strings.HasPrefix(wrong, like) {
				path := []string{name}
				for r := at; r.from != nil; r = r.from {
					path = append(path, r.name)
				}
				slices.Reverse(path)
				fault = fmt.Sprintf("%s after %q", wrong, path)
			}
			if !seen[next] {
				seen[next] = true
				queue = append(queue, &reached{next, at, name, at.depth + 1})
			}
		})
	}
	return len(seen), fault
}

// TestNoPurgedCopyIsKeptInAnyHistory goes through all short histories, and wants no copy kept that
// was purged, and none dropped that was not, but for what docs/coherence.md gives up. Without what a
// look goes by, it finds one.
func TestNoPurgedCopyIsKeptInAnyHistory(t *testing.T) {
	t.Parallel()
	states, fault := replay(fateOf, 8, "")
	if t.Logf("%d states", states); fault != "" || states < 50_000 {
		t.Error(fault)
	}
	for without, blind := range map[string]judge{
		"the number": func(was, now lease.Place, since watch.Received) fate {
			was.Seq, now.Seq = min(was.Seq, 1), min(now.Seq, 1)
			return fateOf(was, now, since)
		},
		"what the hash held": func(was, now lease.Place, since watch.Received) fate {
			if was.Holds == lease.Document {
				was.Holds = lease.Nothing
			}
			return fateOf(was, now, since)
		},
		"that a process has not asked": func(was, now lease.Place, since watch.Received) fate {
			if f := fateOf(was, now, since); was.Holds != lease.Unknown || f != fatePurged {
				return f
			}
			return fateLost
		},
		"changes": func(was, now lease.Place, since watch.Received) fate {
			since.Changes = 0
			return fateOf(was, now, since)
		},
		"flushes": func(was, now lease.Place, since watch.Received) fate {
			since.Flushed, since.Changes = false, 0
			return fateOf(was, now, since)
		},
		"whether it listened": func(was, now lease.Place, since watch.Received) fate {
			since.Listened = true
			return fateOf(was, now, since)
		},
	} {
		if _, fault := replay(blind, 8, "a purged copy"); fault == "" {
			t.Errorf("without %s nothing goes wrong: what is it for?", without)
		} else {
			t.Logf("without %s: %s", without, fault)
		}
	}
}

// TestFateIsDecidedForAllThatCanBeSeen goes through the whole domain: what must hold of each fate
// whatever the history was.
func TestFateIsDecidedForAllThatCanBeSeen(t *testing.T) {
	var places []lease.Place
	for _, set := range []string{"", "a", "b"} {
		for seq := range int64(4) {
			for _, holds := range []lease.Content{lease.Nothing, lease.Stub, lease.Document} {
				if (set == "") == (seq == 0) && (set != "" || holds == lease.Nothing) {
					places = append(places, lease.Place{Set: set, Seq: seq, Holds: holds})
				}
			}
		}
	}
	count := map[fate]int{}
	for _, was := range append([]lease.Place{{}}, places...) {
		for _, now := range places {
			for n := range 3 * 16 {
				since := watch.Received{Changes: uint64(n % 3), Beside: n/3&1 > 0, Flushed: n/6&1 > 0, Listened: n/12&1 > 0, Named: n/24 > 0}
				f := fateOf(was, now, since)
				count[f]++
				quiet := since.Changes == 0 && !since.Beside && !since.Flushed
				here := was.Set != "" && was.Set == now.Set
				for _, rule := range []struct {
					name    string
					applies bool
					holds   bool
				}{
					{"nothing happened", was == now && quiet, f == fateKept},
					{"a removal from its set is a purge", here && was.Holds != lease.Nothing && now.Holds == lease.Nothing && now.Seq >= was.Seq, f == fatePurged},
					{"its set lives on and has a document", here && now.Seq >= was.Seq && now.Holds == lease.Document, f == fateKept},
					{"a stub that a purge may have preceded", here && was.Holds == lease.Nothing && now.Holds == lease.Stub && !since.Listened && since.Changes > 1, f == fatePurged},
					{"nothing is lost from a set that lives on", here && now.Seq >= was.Seq, f != fateLost},
					{"a flush of its own set is a purge", since.Flushed && was.Set != "" && now.Set != was.Set, f == fatePurged},
					{"an empty Redis has lost it", was.Set != "" && now.Set == "" && quiet, f == fateLost},
				} {
					if rule.applies && !rule.holds {
						t.Errorf("%s: was %+v, now %+v, %+v: %d", rule.name, was, now, since, f)
					}
				}
			}
		}
	}
	if len(count) != 3 {
		t.Errorf("fates: %v", count)
	}
}
