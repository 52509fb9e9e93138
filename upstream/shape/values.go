package shape

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// orElse reads a value, for which empty stands if it is null, a repair of the given kind, or
// missing.
func orElse(empty string, null Kind, read reader) reader {
	return func(d *decoder, dst []byte) ([]byte, error) {
		switch {
		case d.absent:
			d.note(KindMissing)
		case d.json.PeekKind() != 'n':
			return read(d, dst)
		default:
			if err := d.step(); err != nil {
				return dst, err
			}
			d.note(null)
		}
		return append(dst, empty...), nil
	}
}

// listOf reads a list; null or nothing is an empty one.
func listOf(read reader) reader { return orElse("[]", KindNull, array(read)) }

// array reads a list, with read for each element.
func array(read reader) reader {
	return func(d *decoder, dst []byte) ([]byte, error) {
		if d.json.PeekKind() != '[' {
			return dst, d.refuse("a list")
		}
		if err := d.step(); err != nil {
			return dst, err
		}
		d.path = append(d.path, frame{})
		at, n := len(d.path)-1, 0
		var has uint64 // of any element
		var list *tally
		if at < 2 { // a list of the document
			list = new(tally)
		}
		dst = append(dst, '[')
		for i := 0; d.json.PeekKind() != ']'; i++ {
			d.path[at].index = i
			before := len(dst)
			if n > 0 {
				dst = append(dst, ',')
			}
			begun := len(dst)
			var err error
			if dst, err = read(d, dst); err != nil {
				return dst, err
			}
			if n++; len(dst) == begun { // it is left out
				dst, n = dst[:before], n-1
				continue
			}
			if has |= d.has; list != nil {
				list.note(dst[begun:], d.has)
			}
		}
		if err := d.step(); err != nil {
			return dst, err
		}
		if d.path, d.has = d.path[:at], has; list != nil {
			d.lists[d.here()] = list
		}
		return append(dst, ']'), nil
	}
}

// scalar returns the next value, which must be of one of two kinds.
func (d *decoder) scalar(want string, one, other jsontext.Kind) (jsontext.Value, error) {
	if k := d.json.PeekKind(); d.absent || k != one && k != other {
		return nil, d.refuse(want)
	}
	raw, err := d.json.ReadValue()
	if err != nil {
		return nil, d.broken(err)
	}
	return raw, nil
}

func (d *decoder) string(dst []byte) ([]byte, error) {
	raw, err := d.scalar("text", '"', '"')
	if err != nil {
		return dst, err
	}
	return appendString(dst, raw), nil
}

// appendString appends a JSON string, escaped like Python's json.dumps with ensure_ascii=False,
// plus U+2028 and U+2029, as Django REST Framework does. Everything else is literal, <, > and
// U+007F included.
func appendString(dst []byte, raw jsontext.Value) []byte {
	separated := bytes.IndexByte(raw, "\u2028"[0]) >= 0 && (bytes.Contains(raw, []byte("\u2028")) || bytes.Contains(raw, []byte("\u2029")))
	if bytes.IndexByte(raw, '\\') < 0 && !separated {
		return append(dst, raw...)
	}
	dst, _ = jsontext.AppendFormat(dst, raw, jsontext.EscapeForJS(true)) // valid: the reader read it
	return dst
}

func (d *decoder) boolean(dst []byte) ([]byte, error) {
	raw, err := d.scalar("true or false", 't', 'f')
	return append(dst, raw...), err
}

// integer reads an integer in any notation, or its digits in a string, with a minus before them if
// it is negative.
func (d *decoder) integer(dst []byte) ([]byte, error) {
	raw, err := d.scalar("an integer", '0', '"')
	if err != nil {
		return dst, err
	}
	digits := raw
	if raw[0] == '"' {
		digits = d.unquote(raw)
	}
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if raw[0] != '"' && err == nil && string(raw) != "-0" {
		return append(dst, raw...), nil
	}
	whole, fits := strings.Trim(strings.TrimPrefix(string(digits), "-"), "0123456789") == "" && len(digits) > 0 && digits[len(digits)-1] != '-', err == nil
	if raw[0] != '"' {
		n, whole, fits = exact(string(raw))
	}
	switch {
	case !whole:
		return dst, d.refused("an integer", excerpt(raw))
	case !fits:
		return dst, d.refused("an integer of 64 bits", excerpt(raw))
	}
	d.note(KindInteger)
	return strconv.AppendInt(dst, n, 10), nil
}

// exact returns the integer that a JSON number with a fraction or an exponent stands for: 1.0, 1e2,
// 12.50e1. It reports whether the number is whole, and whether it fits, in time linear in its
// length.
func exact(number string) (n int64, whole, fits bool) {
	unsigned, negative := strings.CutPrefix(strings.ToLower(number), "-")
	mantissa, power, _ := strings.Cut(unsigned, "e")
	units, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(units+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	exponent, _ := strconv.ParseInt(power, 10, 62) // beyond them, the nearest
	zeros := exponent - int64(len(fraction)) + int64(len(digits)-len(significant))
	switch {
	case significant == "":
		return 0, true, true
	case zeros < 0:
		return 0, false, false
	case zeros > 18:
		return 0, true, false
	}
	significant += strings.Repeat("0", int(zeros))
	if negative {
		significant = "-" + significant
	}
	n, err := strconv.ParseInt(significant, 10, 64)
	return n, true, err == nil
}

// asIs reads a value of any kind: compact, with our string escapes, numbers and key order
// unchanged.
func (d *decoder) asIs(dst []byte) ([]byte, error) {
	if d.absent {
		d.note(KindMissing)
		return append(dst, "null"...), nil
	}
	switch d.json.PeekKind() {
	case '{':
		return d.membersAsIs(dst)
	case '[':
		return elementsAsIs(d, dst)
	}
	raw, err := d.json.ReadValue()
	switch {
	case err != nil:
		return dst, d.broken(err)
	case raw.Kind() == '"':
		return appendString(dst, raw), nil
	}
	return append(dst, raw...), nil
}

var elementsAsIs reader

func init() { elementsAsIs = array((*decoder).asIs) } // which refers to itself

// membersAsIs reads an object. The last value of a repeated name takes the place of the first, as
// in a Python dict.
func (d *decoder) membersAsIs(dst []byte) ([]byte, error) {
	if err := d.step(); err != nil {
		return dst, err
	}
	d.path = append(d.path, frame{index: -1})
	at, open, again := len(d.path)-1, len(dst), false
	var places []extent
	index := make(map[string]int)
	for d.json.PeekKind() != '}' {
		raw, err := d.json.ReadValue()
		if err != nil {
			return dst, d.broken(err)
		}
		name := d.unquote(raw)
		d.path[at].field = name
		start := len(dst)
		dst = append(appendString(append(dst, ','), raw), ':')
		if dst, err = d.asIs(dst); err != nil {
			return dst, err
		}
		place := extent{start, len(dst)}
		if first, ok := index[string(name)]; ok {
			d.note(KindDuplicate)
			places[first], again = place, true
			continue
		}
		index[string(name)] = len(places)
		places = append(places, place)
	}
	if err := d.step(); err != nil {
		return dst, err
	}
	d.path = d.path[:at]
	if again {
		dst = d.reorder(dst, open, places)
	}
	if len(places) == 0 {
		return append(dst, "{}"...), nil
	}
	dst[open] = '{'
	return append(dst, '}'), nil
}
