// Package negotiate decides from the bytes of a request which answer it asks for.
//
// A request goes through it in this order: [ParseQuery] finds the parameters format and ordering, [ParseFormat] and
// [Indent] say whether and how deep the answer is indented, [ParseOrdering] which order of the banners is meant,
// [ChooseEncoding] which content coding, and [Conditions.Evaluate] whether the client has the answer already.
//
// All of it is pure: nothing is kept, nothing is looked up, and nothing allocates on what an ordinary client sends.
package negotiate

import "bytes"

// cut is bytes.Cut around a single byte.
func cut(s []byte, sep byte) (before, after []byte) {
	if i := bytes.IndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, nil
}

// EqualFold compares without regard to the case of ASCII letters; lower is in lower case.
func EqualFold(s []byte, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i, c := range s {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// TrimBlanks trims what RFC 9110 calls OWS: spaces and tabs.
func TrimBlanks(s []byte) []byte {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// HasToken reports whether a comma-separated list has a token, without regard to case; lower is in lower case.
func HasToken(list []byte, lower string) bool {
	for len(list) > 0 {
		var element []byte
		element, list = cut(list, ',')
		if EqualFold(TrimBlanks(element), lower) {
			return true
		}
	}
	return false
}

// AppendDecodedPath appends the path that a percent-encoded one stands for; a plus sign in it is itself.
func AppendDecodedPath(dst, encoded []byte) []byte {
	for len(encoded) > 0 {
		c, width := decodeByte(encoded)
		if encoded[0] == '+' {
			c = '+'
		}
		dst = append(dst, c)
		encoded = encoded[width:]
	}
	return dst
}
