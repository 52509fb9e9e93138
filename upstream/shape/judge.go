package shape

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
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
	before, err := take(r, held)
	now, failed := take(r, loaded)
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
}

// CountLists counts the lists of a document of [Normalize], in the documented order.
func CountLists(r Resource, doc []byte) ([]ListCount, error) { return take(r, doc) }

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

// take counts the lists of a document, in the documented order.
func take(r Resource, doc []byte) (all []ListCount, err error) {
	row := r.row()
	d := jsontext.NewDecoder(bytes.NewBuffer(doc), jsontext.AllowDuplicateNames(true))
	if len(row.lists) == 0 {
		c := ListCount{List: List{Path: string(r)}, name: string(r)}
		err = c.take(d, doc, row.of)
		return []ListCount{c}, err
	}
	if _, err = d.ReadToken(); err != nil {
		return nil, err
	}
	for i, list := range row.lists {
		if _, err = d.ReadToken(); err != nil {
			return nil, err
		}
		c := ListCount{List: List{Path: string(r) + "." + list}, name: list}
		if err = c.take(d, doc, tableNamed(row.of.fields[i].Type)); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// take counts the next list, whose items are of type t.
func (c *ListCount) take(d *jsontext.Decoder, doc []byte, t *table) error {
	item := c.nodes(t, "")
	c.with = make([]int, len(c.fields))
	has := make([]bool, len(c.fields))
	var ids []int64
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() == '{' {
		at := int(d.InputOffset())
		clear(has)
		if err := survey(d, item, has); err != nil {
			return err
		}
		c.Items++
		for i, one := range has {
			if one {
				c.with[i]++
			}
		}
		_, digits, _ := bytes.Cut(doc[at:], []byte(`{"id":`))
		if id, err := strconv.ParseInt(string(digits[:max(bytes.IndexAny(digits, ",}"), 0)]), 10, 64); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	c.Repeated = len(ids) - len(slices.Compact(ids))
	_, err := d.ReadToken()
	return err
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
		switch kind := d.PeekKind(); {
		case f.at < 0 || f.below == nil:
			raw, err := d.ReadValue()
			if err != nil {
				return err
			}
			if f.at >= 0 && len(raw) > len(`""`) && kind != 'n' {
				has[f.at] = true
			}
		case kind == 'n':
			if err := d.SkipValue(); err != nil {
				return err
			}
		case kind == '[':
			_, _ = d.ReadToken() // which was peeked at
			for d.PeekKind() == '{' {
				has[f.at] = true
				if err := survey(d, f.below, has); err != nil {
					return err
				}
			}
			if _, err := d.ReadToken(); err != nil {
				return err
			}
		default:
			has[f.at] = true
			if err := survey(d, f.below, has); err != nil {
				return err
			}
		}
	}
	_, err := d.ReadToken()
	return err
}
