// Package negotiate determines from the bytes of a request which answer it asks for.
//
// A request goes through it in this order: [ParseQuery] finds the parameters format and ordering,
// [ParseFormat] and [Indent] determine the indentation, [ParseOrdering] the order of the banners,
// [ChooseEncoding] the content coding, and [Conditions.Evaluate] whether the client has the answer
// already.
//
// All of these are pure functions, and do not allocate for what ordinary clients send.
package negotiate

import (
	"bytes"
	"errors"
	"strconv"
)

// MaxIndent is the deepest indentation; a larger number means this one.
const MaxIndent = 8

// noIndent is the value of an Accept without indent.
const noIndent = -1

// A Format is a value of the query parameter of that name.
type Format uint8

// The formats.
const (
	FormatDefault Format = iota // absent, empty or json
	FormatAPI                   // the browsable rendering: JSON, indented
	FormatUnknown
)

// apiIndent is how ?format=api indents, which is how the browsable rendering shows a document.
const apiIndent = 4

// Indent returns the indentation of an answer, 0 for none, and whether any answer is acceptable. A
// nil accept is an absent field; an empty one accepts nothing.
func Indent(accept []byte, f Format) (indent int, ok bool) {
	indent = noIndent
	if accept != nil {
		if indent, ok = parseAccept(accept); !ok {
			return 0, false
		}
	}
	switch {
	case indent != noIndent:
		return indent, true
	case f == FormatAPI:
		return apiIndent, true
	}
	return 0, true
}

// parseAccept decides whether an Accept field allows an answer, and its indentation.
//
// It decides as Django REST Framework does, for which there are two renderings, JSON and HTML: the
// most specific media range that allows either wins, weights are ignored, and if JSON wins, the
// parameter indent of that range applies (0 to 8, noIndent if there is none). The caller renders
// both as JSON. A weight of 0 is ignored too, which RFC 9110 leaves to the server (section 12.5.1,
// last paragraph).
func parseAccept(value []byte) (indent int, ok bool) {
	if string(value) == "*/*" {
		return noIndent, true
	}
	best := mediaRange{precedence: -1}
	for element := range bytes.SplitSeq(value, comma) {
		r := parseMediaRange(element)
		if (r.json || r.html) && (r.precedence > best.precedence || r.precedence == best.precedence && r.json && !best.json) {
			best = r
		}
	}
	if !best.json {
		return noIndent, best.html
	}
	return best.indent, true
}

// A mediaRange is one element of Accept.
type mediaRange struct {
	json, html bool // what it allows
	precedence int  // 0 for */*, 1 for type/*, 2 for type/subtype, 3 for one with parameters other than q
	indent     int
}

func parseMediaRange(element []byte) mediaRange {
	r := mediaRange{indent: noIndent}
	full, params := cutParameter(element)
	main, sub := cut(full, '/')
	anyMain, anySub := string(main) == "*", string(sub) == "*"
	r.json = (anyMain || EqualFold(main, "application")) && (anySub || EqualFold(sub, "json"))
	r.html = (anyMain || EqualFold(main, "text")) && (anySub || EqualFold(sub, "html"))

	specific := false
	for len(params) > 0 {
		var p []byte
		p, params = cutParameter(params)
		if bytes.IndexByte(p, '=') < 0 {
			continue
		}
		name, v := cut(p, '=')
		name = TrimBlanks(name)
		if !EqualFold(name, "q") {
			specific = true
		}
		if EqualFold(name, "indent") {
			r.indent = parseIndent(v)
		}
	}
	switch {
	case anyMain:
		r.precedence = 0
	case anySub:
		r.precedence = 1
	case !specific:
		r.precedence = 2
	default:
		r.precedence = 3
	}
	return r
}

// cutParameter cuts s at its first semicolon outside of quotes, and trims the part before it.
func cutParameter(s []byte) (before, after []byte) {
	quoted := false
	for i, c := range s {
		switch {
		case c == '"':
			quoted = !quoted
		case c == ';' && !quoted:
			return TrimBlanks(s[:i]), s[i+1:]
		}
	}
	return TrimBlanks(s), nil
}

// parseIndent reads the value of an indent parameter: a whole number, clamped to 0 to 8; anything
// else is none.
func parseIndent(v []byte) int {
	v = TrimBlanks(v)
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		v = v[1 : len(v)-1]
	}
	n, err := strconv.Atoi(string(v)) // at its limits if it is out of range
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return noIndent
	}
	return min(max(n, 0), MaxIndent)
}

// An Encoding is a content coding of answers.
type Encoding uint8

// The content codings, in order of preference among equal weights.
const (
	Brotli Encoding = iota
	Zstd
	Gzip
	Identity

	// Encodings is the number of codings.
	Encodings = 4
)

// String is the value of Content-Encoding, empty for identity, which has none.
func (e Encoding) String() string { return [Encodings]string{"br", "zstd", "gzip", ""}[e] }

// ChooseEncoding picks the content coding by the value of an Accept-Encoding field (RFC 9110,
// section 12.5.3).
//
// The highest weight wins; between equal ones the coding that is usually smallest. An unlisted
// coding has the weight of *, if listed, and is otherwise not acceptable, except for identity, the
// fallback. Malformed elements are skipped. A client that forbids identity and accepts none of the
// codings still gets identity: section 12.1 lets a server disregard the field, and a readable
// answer helps more than a 406.
func ChooseEncoding(value []byte) Encoding {
	const unlisted = -1
	weights := [Encodings]int{unlisted, unlisted, unlisted, unlisted}
	rest := unlisted
	for element := range bytes.SplitSeq(value, comma) {
		coding, params := cut(element, ';')
		coding = TrimBlanks(coding)
		weight, ok := parseWeight(params)
		if !ok {
			continue
		}
		w := &rest
		switch {
		case EqualFold(coding, "br"):
			w = &weights[Brotli]
		case EqualFold(coding, "zstd"):
			w = &weights[Zstd]
		case EqualFold(coding, "gzip"), EqualFold(coding, "x-gzip"):
			w = &weights[Gzip]
		case EqualFold(coding, "identity"):
			w = &weights[Identity]
		case string(coding) != "*":
			continue
		}
		*w = max(*w, weight)
	}
	best, bestWeight := Identity, 0
	for e, w := range weights {
		if w == unlisted {
			w = rest
		}
		if w > bestWeight {
			best, bestWeight = Encoding(e), w
		}
	}
	return best
}

// parseWeight reads the weight after the semicolon of an element, in thousandths: none is 1000.
func parseWeight(params []byte) (thousandths int, ok bool) {
	params = TrimBlanks(params)
	if len(params) == 0 {
		return 1000, true
	}
	name, v := cut(params, '=')
	if !EqualFold(name, "q") || len(v) == 0 || len(v) > len("0.000") || v[0] < '0' || v[0] > '1' {
		return 0, false
	}
	thousandths = int(v[0]-'0') * 1000
	if len(v) > 1 && v[1] != '.' {
		return 0, false
	}
	for i, scale := 2, 100; i < len(v); i, scale = i+1, scale/10 {
		if v[i] < '0' || v[i] > '9' {
			return 0, false
		}
		thousandths += int(v[i]-'0') * scale
	}
	return thousandths, thousandths <= 1000
}

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
