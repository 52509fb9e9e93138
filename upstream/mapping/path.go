package mapping

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
)

// A path is a program that only goes down into objects: .data, .results? // ., .meta.total //
// empty. Most of those that find something in a response are, and such a program is evaluated while
// the response is read, so that nothing but what it finds is decoded.
type path struct {
	ways  [][]string // one after the other; no steps are the value itself
	empty bool       // nothing is found if no way leads anywhere, rather than null
}

var step = regexp.MustCompile(`^(?:\.[A-Za-z_]\w*\??)+$`)

// pathOf returns the path that a program is, or nil.
func pathOf(source string) *path {
	p := new(path)
	for way := range strings.SplitSeq(source, "//") {
		switch way = strings.TrimSpace(way); {
		case p.empty:
			return nil // nothing follows empty
		case way == "empty" && len(p.ways) > 0:
			p.empty = true
		case way == ".":
			p.ways = append(p.ways, nil)
		case step.MatchString(way):
			p.ways = append(p.ways, strings.Split(strings.ReplaceAll(way[1:], "?", ""), "."))
		default:
			return nil
		}
	}
	return p
}

// find returns what is at the path in a decoded value, and whether anything is.
func (p *path) find(v any) (found any, ok bool) {
	for _, way := range p.ways {
		found = v
		for _, name := range way {
			object, _ := found.(map[string]any)
			found = object[name]
		}
		if found != nil && found != false {
			return found, true
		}
	}
	return found, !p.empty
}

// raw returns the bytes at the path in the JSON of an item, nil for null or nothing.
func (p *path) raw(item []byte) []byte {
	for _, way := range p.ways {
		found := item
		for _, name := range way {
			found = member(found, name)
		}
		if found != nil && string(found) != "null" {
			return found
		}
	}
	return nil
}

// member returns the bytes of a member, nil if there is none: of a repeated name the last, which is
// the one served. What is not JSON is refused later.
func member(object []byte, name string) (value []byte) {
	d := newReader("", object)
	defer d.free()
	if d.json.PeekKind() == '{' {
		_ = d.members(func(found string) (err error) {
			raw, err := d.raw()
			if err == nil && found == name {
				value = raw
				if rest := d.in[d.json.InputOffset():]; !bytes.Contains(rest, []byte(`"`+name+`"`)) && !bytes.Contains(rest, []byte(`\u`)) {
					return errFound // it cannot come again, also not with a letter escaped
				}
			}
			return err
		})
	}
	return value
}

// errFound ends the reading of an object.
var errFound = errors.New("found")

// pathsOf returns the paths of a program that is one, or makes a list of several: [.documentId //
// .id, .locale].
func pathsOf(source string) (all []*path) {
	inside, isList := strings.CutPrefix(strings.TrimSpace(source), "[")
	if isList {
		inside, isList = strings.CutSuffix(inside, "]")
	}
	if !isList {
		inside = source
	}
	for one := range strings.SplitSeq(inside, ",") {
		p := pathOf(one)
		if p == nil {
			return nil
		}
		all = append(all, p)
	}
	if !isList && len(all) > 1 {
		return nil
	}
	return all
}
