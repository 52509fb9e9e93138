package proxy

// An encoding is a content coding that answers may have.
type encoding uint8

// The content codings, in the order in which they are preferred where a client does not mind.
const (
	brotliEncoding encoding = iota
	zstdEncoding
	gzipEncoding
	identityEncoding

	encodings = 4
)

// contentEncodings are the values of Content-Encoding; identity has none.
var contentEncodings = [encodings][]byte{[]byte("br"), []byte("zstd"), []byte("gzip"), nil}

// chooseEncoding picks the content coding by the value of an Accept-Encoding field (RFC 9110, section 12.5.3).
//
// The highest weight wins; between equal ones the coding that is usually smallest. A coding that is not listed has
// the weight of * if that is there, and is not acceptable otherwise, except for identity, which is what is left when
// nothing else is. Elements that the grammar does not know are skipped. A client that forbids identity and accepts
// nothing that is offered gets identity all the same: section 12.1 lets a server disregard what it cannot satisfy,
// and a readable answer helps more than a 406.
func chooseEncoding(value []byte) encoding {
	const unlisted = -1
	weights := [encodings]int{unlisted, unlisted, unlisted, unlisted}
	rest := unlisted
	for len(value) > 0 {
		var element []byte
		element, value = cut(value, ',')
		coding, params := cut(element, ';')
		coding = trimBlanks(coding)
		weight, ok := parseWeight(params)
		if !ok {
			continue
		}
		w := &rest
		switch {
		case equalFold(coding, "br"):
			w = &weights[brotliEncoding]
		case equalFold(coding, "zstd"):
			w = &weights[zstdEncoding]
		case equalFold(coding, "gzip"), equalFold(coding, "x-gzip"):
			w = &weights[gzipEncoding]
		case equalFold(coding, "identity"):
			w = &weights[identityEncoding]
		case string(coding) != "*":
			continue
		}
		*w = max(*w, weight)
	}
	best, bestWeight := identityEncoding, 0
	for e, w := range weights {
		if w == unlisted {
			w = rest
		}
		if w > bestWeight {
			best, bestWeight = encoding(e), w
		}
	}
	return best
}

// parseWeight reads what follows the semicolon of a weighted element, in thousandths: nothing is 1000.
func parseWeight(params []byte) (thousandths int, ok bool) {
	params = trimBlanks(params)
	if len(params) == 0 {
		return 1000, true
	}
	name, v := cut(params, '=')
	if !equalFold(name, "q") || len(v) == 0 || len(v) > len("0.000") || v[0] < '0' || v[0] > '1' {
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
