package shape

import (
	"bytes"
	"strconv"
)

// readText reads a string; null and a missing field are "".
func (d *decoder) readText(to *string) error {
	*to = ""
	if done, err := d.vacant(KindNull); done || err != nil {
		return err
	}
	if d.json.PeekKind() != '"' {
		return d.refuse("text")
	}
	raw, err := d.json.ReadValue()
	if err != nil {
		return d.broken(err)
	}
	*to = d.unquote(raw)
	return nil
}

// readTags reads a list of strings.
func (d *decoder) readTags(to *[]string) error {
	return list(d, to, (*decoder).readText)
}

// readBool reads true or false; null and a missing field are false.
func (d *decoder) readBool(to *bool) error {
	*to = false
	if done, err := d.vacant(KindNull); done || err != nil {
		return err
	}
	if k := d.json.PeekKind(); k != 't' && k != 'f' {
		return d.refuse("true or false")
	}
	t, err := d.json.ReadToken()
	if err != nil {
		return d.broken(err)
	}
	*to = t.Bool()
	return nil
}

// wantInteger is the wording of a refusal.
const wantInteger = "an integer"

// readID reads a required integer.
func (d *decoder) readID(to *int64) error {
	if d.absent {
		return d.refuse(wantInteger)
	}
	switch d.json.PeekKind() {
	case '0':
		raw, err := d.json.ReadValue()
		if err != nil {
			return d.broken(err)
		}
		return d.number(to, raw)
	case '"':
		raw, err := d.json.ReadValue()
		if err != nil {
			return d.broken(err)
		}
		return d.digits(to, raw)
	default:
		return d.refuse(wantInteger)
	}
}

// readInteger reads an integer; null and a missing field leave to nil and are counted.
func (d *decoder) readInteger(to **int64) error {
	*to = nil
	if done, err := d.vacant(KindVacant); done || err != nil {
		return err
	}
	v := new(int64)
	if err := d.readID(v); err != nil {
		return err
	}
	*to = v
	return nil
}

// readNullable reads an integer for which null is documented too.
func (d *decoder) readNullable(to **int64) error {
	*to = nil
	if !d.absent && d.json.PeekKind() == 'n' {
		if _, err := d.json.ReadToken(); err != nil {
			return d.broken(err)
		}
		return nil
	}
	return d.readInteger(to)
}

// number sets to to a JSON number that is an integer in any notation.
func (d *decoder) number(to *int64, raw []byte) error {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil && string(raw) != "-0" {
		*to = n
		return nil
	}
	n, whole, fits := exact(raw)
	switch {
	case !whole:
		return d.refused(wantInteger, excerpt(raw))
	case !fits:
		return d.refused("an integer of 64 bits", excerpt(raw))
	}
	d.note(KindInteger)
	*to = n
	return nil
}

// digits sets to to an integer that came as text: digits, and a minus before them if it is
// negative.
func (d *decoder) digits(to *int64, raw []byte) error {
	s := d.unquote(raw)
	unsigned := s
	if len(s) > 1 && s[0] == '-' {
		unsigned = s[1:]
	}
	if !allDigits(unsigned) {
		return d.refused(wantInteger, excerpt(raw))
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return d.refused("an integer of 64 bits", excerpt(raw))
	}
	d.note(KindInteger)
	*to = n
	return nil
}

// exact returns the integer that a JSON number with a fraction or an exponent stands for: 1.0, 1e2,
// 12.50e1. It reports whether the number is whole, and whether it fits; a huge exponent costs no
// more than a small one.
func exact(raw []byte) (n int64, whole, fits bool) {
	negative := raw[0] == '-'
	if negative {
		raw = raw[1:]
	}
	exponent := 0
	if i := bytes.IndexAny(raw, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(string(raw[i+1:])); err != nil || exponent > 1<<30 || exponent < -1<<30 {
			exponent = 1 << 30 // beyond any integer; below, beyond any fraction
			if raw[i+1] == '-' {
				exponent = -1 << 30
			}
		}
		raw = raw[:i]
	}
	digits := raw
	if i := bytes.IndexByte(raw, '.'); i >= 0 {
		digits = append(append(make([]byte, 0, len(raw)), raw[:i]...), raw[i+1:]...)
		exponent -= len(raw) - i - 1
	}
	digits = bytes.TrimLeft(digits, "0")
	if len(digits) == 0 {
		return 0, true, true
	}
	significant := bytes.TrimRight(digits, "0")
	exponent += len(digits) - len(significant)
	switch {
	case exponent < 0:
		return 0, false, false
	case len(significant)+exponent > 19:
		return 0, true, false
	}
	s := append(make([]byte, 0, 20), '-')
	s = append(s, significant...)
	s = append(s, bytes.Repeat([]byte("0"), exponent)...)
	if !negative {
		s = s[1:]
	}
	n, err := strconv.ParseInt(string(s), 10, 64)
	return n, true, err == nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
