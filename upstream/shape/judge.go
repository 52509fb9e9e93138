package shape

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// leastEmptied is how many items a list must have had for its end to be a loss: the last one goes
	// every day.
	leastEmptied = 2
	// leastShrunk is how many a list must have had for a share of it, or a field, to be one.
	leastShrunk = 10
)

// A Loss is what a document would lack beside the one that it replaces.
type Loss struct {
	Reason      string // "no artworks, 290 before", "14 artworks, 290 before", "tag is empty in all 20 galleries, 18 had it"
	Before, Now int    // items of the lists that it is about
	// Lasting says that time does not make it likelier to be meant: a list of the catalogue or the
	// rules has no items. Banners come and go.
	Lasting bool
}

// Judge compares a document with the one that it would replace, both as [Normalize] wrote them. A
// loss is a list that had two items or more and is empty; one of ten or more that lost a larger
// share of them than share; and a text or relation that more than half of its items had and none
// has. Anything else is nil, as is a document that cannot be read.
func Judge(r Resource, held, loaded []byte, share float64) *Loss {
	before, err := CountLists(r, held)
	now, failed := CountLists(r, loaded)
	if err != nil || failed != nil {
		return nil
	}
	var losses, lasting []string
	var loss Loss
	for i := range before {
		b, n := &before[i], &now[i]
		reason := ""
		switch {
		case b.Items >= leastEmptied && n.Items == 0:
			reason = fmt.Sprintf("no %s, %d before", Noun(b.name, 0), b.Items)
			if r.row().lasting {
				lasting = append(lasting, reason)
			}
		case b.Items < leastShrunk:
		case float64(b.Items-n.Items) > share*float64(b.Items):
			reason = fmt.Sprintf("%d %s, %d before", n.Items, Noun(b.name, n.Items), b.Items)
		default:
			reason = vanished(b, n)
		}
		if reason != "" {
			losses = append(losses, reason)
			loss.Before, loss.Now = loss.Before+b.Items, loss.Now+n.Items
		}
	}
	if len(losses) == 0 {
		return nil
	}
	loss.Reason, loss.Lasting = strings.Join(losses, "; "), len(lasting) > 0
	return &loss
}

// vanished is a field that most items had, and none has; a relation comes before what is below it.
func vanished(before, now *ListCount) string {
	for i, field := range before.fields {
		if 2*before.with[i] > before.Items && now.with[i] == 0 {
			return fmt.Sprintf("%s is empty in all %d %s, %d had it", field, now.Items, Noun(before.name, now.Items), before.with[i])
		}
	}
	return ""
}

// A ListCount counts one list of a document.
type ListCount struct {
	List
	Repeated int // items whose id an earlier one has

	name    string   // of the list: artwork
	fields  []string // its texts and relations, those of related objects too: address.city
	related []bool   // which of them are relations
	with    []int    // the items in which each has content
	has     []bool   // which of them the present item has
	ids     []int64
}

// CountLists counts the lists of a document of [Normalize], in the documented order.
func CountLists(r Resource, doc []byte) (all []ListCount, err error) {
	var items [][]node // their fields, by list
	for _, list := range r.row().parts() {
		c := ListCount{List: List{Path: list.path}, name: list.name}
		items = append(items, c.nodes(list.of, ""))
		c.with, c.has = make([]int, len(c.fields)), make([]bool, len(c.fields))
		all = append(all, c)
	}
	err = r.walk(doc, func(list int, d *jsontext.Decoder) error {
		c, at := &all[list], d.InputOffset()
		clear(c.has)
		if err := survey(d, items[list], c.has); err != nil {
			return err
		}
		c.Items++
		for i, has := range c.has {
			if has {
				c.with[i]++
			}
		}
		if id, err := idOf(bytes.TrimLeft(doc[at:], ",")); err == nil {
			c.ids = append(c.ids, id)
		}
		return nil
	})
	for i := range all {
		slices.Sort(all[i].ids)
		all[i].Repeated = len(all[i].ids) - len(slices.Compact(all[i].ids))
	}
	return all, err
}

// Empty returns the texts and relations (address.city) that no item has, but not what is below such
// a relation, which is an object or a list of objects.
func (c *ListCount) Empty() (texts, relations []string) {
	for i, field := range c.fields {
		parent, _, below := cutLast(field)
		switch {
		case c.with[i] > 0 || below && slices.Contains(relations, parent):
		case c.related[i]:
			relations = append(relations, field)
		case !below || c.with[slices.Index(c.fields, parent)] > 0:
			texts = append(texts, field)
		}
	}
	return texts, relations
}

func cutLast(field string) (parent, name string, below bool) {
	at := strings.LastIndexByte(field, '.')
	return field[:max(at, 0)], field[at+1:], at > 0
}

// A node is a field of an item: where it is counted (-1: nowhere), and what is below a relation.
type node struct {
	at    int
	below []node
}

// nodes are those of an object of type t, whose counted fields are added to c.
func (c *ListCount) nodes(t *table, prefix string) (all []node) {
	for _, f := range t.fields {
		n := node{at: -1}
		related := tableNamed(f.Type)
		if related != nil || f.Type == "text" || f.Type == "any" && f.List {
			n.at = len(c.fields)
			c.fields, c.related = append(c.fields, prefix+f.Name), append(c.related, related != nil)
		}
		if related != nil {
			n.below = c.nodes(related, prefix+f.Name+".")
		}
		all = append(all, n)
	}
	return all
}

// survey notes which fields of the next object have content: its fields are the nodes, in order.
func survey(d *jsontext.Decoder, fields []node, has []bool) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for _, f := range fields {
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		var raw jsontext.Value
		var err error
		switch kind := d.PeekKind(); {
		case f.below != nil && kind == '{':
			has[f.at] = true
			err = survey(d, f.below, has)
		case f.below != nil && kind == '[':
			err = elements(d, func() error {
				has[f.at] = true
				return survey(d, f.below, has)
			})
		default:
			raw, err = d.ReadValue()
			if f.at >= 0 && f.below == nil && len(raw) > len(`""`) && kind != 'n' {
				has[f.at] = true
			}
		}
		if err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}
