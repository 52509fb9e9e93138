// Package negotiate determines from the bytes of a request which answer it asks for.
//
// A request goes through it in this order: [ParseQuery] finds the parameters format and ordering,
// [ParseFormat] and [Indent] determine the indentation, [ParseOrdering] the order of the banners,
// [ChooseEncoding] the content coding, and [Conditions.Evaluate] whether the client has the answer
// already.
//
// All of these are pure functions, and do not allocate for what ordinary clients send.
package negotiate

import "bytes"

// comma separates the elements of a list.
var comma = []byte(",")

// cut is bytes.Cut around a single byte.
func cut(s []byte, sep byte) (before, after []byte) {
	if i := bytes.IndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, nil
}

// EqualFold compares ignoring the case of ASCII letters; lower is in lower case.
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

// TrimBlanks trims spaces and tabs (OWS in RFC 9110).
func TrimBlanks(s []byte) []byte {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// HasToken reports whether a comma-separated list has a token, ignoring case; lower is in lower
// case.
func HasToken(list []byte, lower string) bool {
	for element := range bytes.SplitSeq(list, comma) {
		if EqualFold(TrimBlanks(element), lower) {
			return true
		}
	}
	return false
}
