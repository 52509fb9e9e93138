package shape

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// object reads an object: read is called with the index of each of fields, in the order in which
// they appear, and then, with d.absent, of the missing ones. Unknown fields are dropped.
//
// The last of a repeated field counts, as in Python. So a refusal inside a field is held until the
// object ends: the field may be repeated.
func (d *decoder) object(fields []string, read func(i int) error) error {
	if d.json.PeekKind() != '{' {
		return d.refuse("an object")
	}
	if _, err := d.json.ReadToken(); err != nil {
		return d.broken(err)
	}
	if d.budget -= fieldCost * len(fields); d.budget < 0 {
		d.fatal = true
		return d.refused("objects with their fields", "too many that lack most of them")
	}
	d.path = append(d.path, frame{index: -1})
	at, depth := len(d.path)-1, d.json.StackDepth()
	var (
		seen uint32 // a bit for each of fields
		held []refusal
		next int
	)
	for d.json.PeekKind() != '}' {
		d.path[at].field = ""
		name, err := d.json.ReadValue()
		if err != nil {
			return d.broken(err)
		}
		i := d.find(fields, next, name)
		if i < 0 {
			if err := d.drop(name); err != nil {
				return err
			}
			continue
		}
		d.path[at].field = fields[i]
		if seen&(1<<i) != 0 {
			d.note(KindDuplicate)
			held = without(held, i)
		}
		seen |= 1 << i
		next = i + 1
		start := d.json.InputOffset()
		if err := read(i); err != nil {
			if d.fatal {
				return err
			}
			held = append(held, refusal{i, err})
			d.path = d.path[:at+1]
			if err := d.recover(depth, start); err != nil {
				return err
			}
		}
	}
	if _, err := d.json.ReadToken(); err != nil {
		return d.broken(err)
	}
	if len(held) > 0 {
		return held[0].err
	}
	for i, field := range fields {
		if seen&(1<<i) != 0 {
			continue
		}
		d.path[at].field = field
		d.absent = true
		err := read(i)
		d.absent = false
		if err != nil {
			return err
		}
	}
	d.path = d.path[:at]
	return nil
}

// refusal is a refusal held until the end of its object.
type refusal struct {
	field int
	err   error
}

func without(held []refusal, field int) []refusal {
	for i, r := range held {
		if r.field == field {
			return append(held[:i], held[i+1:]...)
		}
	}
	return held
}

// recover skips the rest of a field that was refused somewhere inside: up to the object's own
// depth, and past the value if none of it was read.
func (d *decoder) recover(depth int, start int64) error {
	for d.json.StackDepth() > depth {
		if err := d.step(); err != nil {
			return err
		}
	}
	if d.json.InputOffset() == start {
		return d.skip()
	}
	return nil
}

// find returns the index in fields of a name as it appears in the document, or -1. Names are mostly
// in order, so next is tried first.
func (d *decoder) find(fields []string, next int, name jsontext.Value) int {
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendUnquote(d.scratch[:0], name) // valid: the reader read it
		d.scratch = name
	} else {
		name = name[1 : len(name)-1]
	}
	if next < len(fields) && string(name) == fields[next] {
		return next
	}
	for i, field := range fields {
		if string(name) == field {
			return i
		}
	}
	return -1
}

// drop skips the value of an unknown field.
func (d *decoder) drop(name jsontext.Value) error {
	at := len(d.path) - 1
	d.repairs.add(KindUnknown, func() string {
		d.path[at].field = unquoted(name)
		return d.path.render(d.root)
	})
	d.path[at].field = ""
	return d.skip()
}

// list reads a list, null or a missing field into to, which is never nil afterwards.
func list[T any](d *decoder, to *[]T, read func(*decoder, *T) error) error {
	*to = []T{}
	if done, err := d.vacant(KindNull); done || err != nil {
		return err
	}
	return array(d, to, read)
}

// array reads a list into to, which is never nil afterwards.
func array[T any](d *decoder, to *[]T, read func(*decoder, *T) error) error {
	*to = []T{}
	if d.json.PeekKind() != '[' {
		return d.refuse("a list")
	}
	if _, err := d.json.ReadToken(); err != nil {
		return d.broken(err)
	}
	d.path = append(d.path, frame{})
	at := len(d.path) - 1
	items := *to
	for d.json.PeekKind() != ']' {
		items = append(items, *new(T))
		d.path[at].index = len(items) - 1
		if err := read(d, &items[len(items)-1]); err != nil {
			return err
		}
	}
	*to = items
	if _, err := d.json.ReadToken(); err != nil {
		return d.broken(err)
	}
	d.path = d.path[:at]
	return nil
}
