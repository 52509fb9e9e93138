package shape

// Indent appends compact, a document of this package, to dst as Python's json.dumps(indent=n)
// writes it, with ": " after keys, which is what Django REST Framework answers to Accept:
// application/json; indent=n. Empty lists and objects stay [] and {}. With n of 0 or less, compact
// is appended unchanged. Input that is not JSON is copied as it is, and nothing is indented deeper
// than a document of this package can be, so that the output is bounded.
func Indent(dst, compact []byte, n int) []byte {
	if n <= 0 {
		return append(dst, compact...)
	}
	depth := 0
	newline := func() {
		dst = append(dst, '\n')
		for range min(depth, maxDepth) * n {
			dst = append(dst, ' ')
		}
	}
	for i := 0; i < len(compact); i++ {
		switch c := compact[i]; c {
		case '"':
			end := endOfString(compact, i)
			dst = append(dst, compact[i:end]...)
			i = end - 1
		case '{', '[':
			dst = append(dst, c)
			if i+1 < len(compact) && compact[i+1] == c+2 { // '}' is '{'+2, ']' is '['+2
				dst = append(dst, c+2)
				i++
				continue
			}
			depth++
			newline()
		case '}', ']':
			depth = max(depth-1, 0)
			newline()
			dst = append(dst, c)
		case ',':
			dst = append(dst, c)
			newline()
		case ':':
			dst = append(dst, ": "...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// endOfString returns the index after the string that begins at i.
func endOfString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}
