package shape

import (
	"bytes"
	"encoding/json"
	"slices"
)

// readAsIs reads a field of no documented type: any JSON value, compact, with our string escapes,
// numbers and key order unchanged. nil is null, or a missing field.
func (d *decoder) readAsIs(to *json.RawMessage) error {
	*to = nil
	switch {
	case d.absent:
		d.note(KindMissing)
		return nil
	case d.json.PeekKind() == 'n':
		return d.skip()
	}
	value, err := d.appendValue(nil)
	*to = value
	return err
}

// readListAsIs reads a list whose items have no documented type. As for any list, null or a missing
// field becomes an empty list.
func (d *decoder) readListAsIs(to *json.RawMessage) error {
	if done, err := d.vacant(KindNull); done || err != nil {
		*to = json.RawMessage("[]")
		return err
	}
	return d.readAsIs(to)
}

// appendValue reads a value of any kind and appends it to dst.
func (d *decoder) appendValue(dst []byte) ([]byte, error) {
	switch d.json.PeekKind() {
	case '{':
		return d.appendMembers(dst)
	case '[':
		return d.appendElements(dst)
	}
	raw, err := d.json.ReadValue()
	if err != nil {
		return dst, d.broken(err)
	}
	if raw.Kind() == '"' {
		return appendString(dst, d.unquote(raw)), nil
	}
	return append(dst, raw...), nil
}

func (d *decoder) appendElements(dst []byte) ([]byte, error) {
	if err := d.step(); err != nil {
		return dst, err
	}
	d.path = append(d.path, frame{})
	at := len(d.path) - 1
	dst = append(dst, '[')
	for i := 0; d.json.PeekKind() != ']'; i++ {
		d.path[at].index = i
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = d.appendValue(dst); err != nil {
			return dst, err
		}
	}
	if err := d.step(); err != nil {
		return dst, err
	}
	d.path = d.path[:at]
	return append(dst, ']'), nil
}

// appendMoment appends a value that may be a timestamp: then it is written like all others.
func (d *decoder) appendMoment(dst []byte) ([]byte, error) {
	start := len(dst)
	dst, err := d.appendValue(dst)
	if err != nil || dst[start] != '"' || bytes.IndexByte(dst[start:], '\\') >= 0 {
		return dst, err
	}
	m, ok := parseMoment(string(dst[start+1 : len(dst)-1]))
	if !ok || m.canonical {
		return dst, nil
	}
	if t := m.utc(); t.Year() >= 1 && t.Year() <= 9999 {
		d.note(m.repair())
		dst = append(t.AppendFormat(append(dst[:start], '"'), timestampLayout), '"')
	}
	return dst, nil
}

// member is a member of an object that is passed through: its name, and its place in dst.
type member struct {
	name       string
	start, end int
}

// appendMembers appends an object. The last value of a repeated name takes the place of the first,
// as in a Python dict.
func (d *decoder) appendMembers(dst []byte) ([]byte, error) {
	if err := d.step(); err != nil {
		return dst, err
	}
	d.path = append(d.path, frame{index: -1})
	at := len(d.path) - 1
	dst = append(dst, '{')
	open := len(dst)
	var (
		members []member
		index   map[string]int // of many; few are looked through
		again   bool
	)
	for d.json.PeekKind() != '}' {
		raw, err := d.json.ReadValue()
		if err != nil {
			return dst, d.broken(err)
		}
		name := d.unquote(raw)
		d.path[at].field = name
		if len(dst) > open {
			dst = append(dst, ',')
		}
		start := len(dst)
		dst = append(appendString(dst, name), ':')
		if name == "created_at" || name == "updated_at" {
			dst, err = d.appendMoment(dst)
		} else {
			dst, err = d.appendValue(dst)
		}
		if err != nil {
			return dst, err
		}
		m := member{name, start, len(dst)}
		first, ok := index[name]
		if index == nil {
			first = slices.IndexFunc(members, func(m member) bool { return m.name == name })
			ok = first >= 0
		}
		if ok {
			d.note(KindDuplicate)
			members[first] = m
			again = true
			continue
		}
		if members = append(members, m); index != nil {
			index[name] = len(members) - 1
		} else if len(members) == 16 {
			index = make(map[string]int)
			for i, m := range members {
				index[m.name] = i
			}
		}
	}
	if err := d.step(); err != nil {
		return dst, err
	}
	d.path = d.path[:at]
	if again {
		dst = reorder(dst, open, members)
	}
	return append(dst, '}'), nil
}

// reorder replaces everything in dst from open on with the given members.
func reorder(dst []byte, open int, members []member) []byte {
	var kept []byte
	for i, m := range members {
		if i > 0 {
			kept = append(kept, ',')
		}
		kept = append(kept, dst[m.start:m.end]...)
	}
	return append(dst[:open], kept...)
}
