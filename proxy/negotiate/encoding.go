package negotiate

import "bytes"

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
