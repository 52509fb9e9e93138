package mapping

import (
	"net/http"
	"strings"
)

// NextLink returns the target of rel="next" in the Link headers (RFC 8288), or "". It reads them
// once, from front to back, in linear time.
func NextLink(h http.Header) string {
	for _, line := range h.Values("Link") {
		for {
			_, rest, found := strings.Cut(line, "<")
			if !found {
				break
			}
			target, params, closed := strings.Cut(rest, ">")
			if !closed {
				break
			}
			var isNext bool
			if isNext, line = linkParams(params); isNext {
				return target
			}
		}
	}
	return ""
}

// linkParams reads the parameters of a link up to the comma that ends it, and reports whether its
// relation is next.
func linkParams(s string) (isNext bool, rest string) {
	start, quoted := 0, false
	check := func(end int) {
		name, value, _ := strings.Cut(strings.TrimSpace(s[start:end]), "=")
		isNext = isNext || strings.EqualFold(strings.TrimSpace(name), "rel") &&
			strings.EqualFold(strings.Trim(strings.TrimSpace(value), `"`), "next")
		start = end + 1
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ';':
			check(i)
		case c == ',':
			check(i)
			return isNext, s[i+1:]
		}
	}
	check(len(s))
	return isNext, ""
}
