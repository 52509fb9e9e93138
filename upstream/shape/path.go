package shape

import "strconv"

// path is the decoder's position: a frame for each open object or array. It is rendered as text
// only for a repair that is kept or a refusal.
type path []frame

// frame is one step: the current field of an object, or index of an array.
type frame struct {
	field string // "" in an array, and in an object before its first field
	index int    // -1 in an object
}

// render returns the path as text: catalogue.gallery[0].address[1].city.id.
func (p path) render(root Resource) string {
	b := []byte(root)
	for _, f := range p {
		switch {
		case f.index >= 0:
			b = append(b, '[')
			b = strconv.AppendInt(b, int64(f.index), 10)
			b = append(b, ']')
		case f.field != "":
			b = appendField(b, f.field)
		}
	}
	return string(b)
}

// appendField appends .name, or ["name"] for a name that would be hard to read in a path. Long
// names are shortened.
func appendField(b []byte, name string) []byte {
	if len(name) <= maxExcerpt && isPlain(name) {
		b = append(b, '.')
		return append(b, name...)
	}
	b = append(b, '[')
	b = append(b, excerpt(appendString(nil, name))...)
	return append(b, ']')
}

func isPlain(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return name != ""
}
