package mapping

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"

	"vitrine/upstream/shape"
)

// How answers say that a list goes on, by names without blanks, case and underscores.
var (
	nextNames  = []string{"next", "nextpage", "nextpageurl", "nexturl", "nextlink", "nextcursor", "nexttoken", "nextpagetoken"}
	moreNames  = []string{"hasmore", "hasnext", "hasnextpage", "more", "morepages"}
	totalNames = []string{"total", "totalcount", "totalitems", "totaldocs", "totalresults", "numfound", "count", "xtotalcount", "xwptotal"}
	pagesNames = []string{"pagecount", "totalpages", "pages", "lastpage", "xwptotalpages"}
)

// More returns what in an answer shows that its list goes on after so many items, or "". v is the
// answer as Decode makes it; the items themselves are not looked into. Of a list of several pages
// totals say nothing here.
func More(v any, header http.Header, items int, paged bool) string {
	if NextLink(header) != "" {
		return `a Link header with rel="next"`
	}
	if paged {
		items = math.MaxInt
	}
	for _, name := range []string{"X-Total-Count", "X-WP-Total", "X-WP-TotalPages"} {
		if n, err := strconv.Atoi(header.Get(name)); err == nil && saysMore(plainName(name), float64(n), items) {
			return fmt.Sprintf("%s: %d", name, n)
		}
	}
	return more(v, "", items, 3)
}

func more(v any, path string, items, depth int) string {
	object, ok := v.(map[string]any)
	if !ok || depth == 0 {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at := shape.Member(path, name)
		value := object[name]
		switch n := number(value); {
		case n != "":
			if f, err := strconv.ParseFloat(n, 64); err == nil && saysMore(plainName(name), f, items) {
				return at + ": " + n
			}
		case value == true && slices.Contains(moreNames, plainName(name)):
			return at + ": true"
		}
		if text, ok := value.(string); ok && text != "" && slices.Contains(nextNames, plainName(name)) {
			return at + ": a link or cursor"
		}
		if found := more(value, at, items, depth-1); found != "" {
			return found
		}
	}
	return ""
}

func saysMore(name string, n float64, items int) bool {
	return slices.Contains(totalNames, name) && n > float64(items) || slices.Contains(pagesNames, name) && n > 1 && items < math.MaxInt
}

func plainName(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}

// graphQLError refuses what a GraphQL server answers beside an error: data that lacks something.
func graphQLError(root string, v any) error {
	object, _ := v.(map[string]any)
	errs, _ := object["errors"].([]any)
	if len(errs) == 0 {
		return nil
	}
	got := "an error"
	if first, ok := errs[0].(map[string]any); ok {
		if message, ok := first["message"].(string); ok {
			got = "an error: " + Clip(message)
		}
	}
	return refuse(root, "data without errors", got)
}

// A link in a Link header with its parameters (RFC 8288), one of these, and the one of the link to
// the next page. Commas and semicolons between quotes separate nothing.
var (
	link      = regexp.MustCompile(`<([^>]*)>((?:` + quotes + `|[^",])*)`)
	parameter = regexp.MustCompile(`(?:` + quotes + `|[^";])+`)
	isNext    = regexp.MustCompile(`(?i)^\s*rel\s*=\s*"*next"*\s*$`)
)

const quotes = `"(?s:\\.|[^"\\])*\\?(?:"|$)`

// NextLink returns the target of rel="next" in the Link headers, or "".
func NextLink(h http.Header) string {
	for _, line := range h.Values("Link") {
		for _, found := range link.FindAllStringSubmatch(line, -1) {
			if slices.ContainsFunc(parameter.FindAllString(found[2], -1), isNext.MatchString) {
				return found[1]
			}
		}
	}
	return ""
}

// mostDigits bounds a number: reading it takes time that grows with the square of its length.
const mostDigits = 64

// number is a number of any of gojq's types as a text, or "": a whole one of up to 53 bits as its
// digits, and any other as the CMS wrote it.
func number(v any) string {
	switch v := v.(type) {
	case int:
		return strconv.Itoa(v)
	case *big.Int:
		if v.BitLen() <= 3*mostDigits {
			return v.String()
		}
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
	case json.Number:
		if len(v) > mostDigits {
			break
		}
		if f, err := v.Float64(); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return strconv.FormatFloat(f, 'f', -1, 64)
		}
		return string(v)
	}
	return ""
}

// count reads a number of items, which some databases have as a text.
func (p *Program) count(path string, v any) (int, error) {
	digits, isText := v.(string)
	if !isText {
		digits = number(v)
	}
	if n, err := strconv.Atoi(digits); err == nil && n >= 0 {
		return n, nil
	}
	return -1, p.wrong(path, "want a number of items, got %s", Clip(gojq.Preview(v)))
}

// text reads a link or a cursor; null and false are "".
func (p *Program) text(path string, v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case bool:
		if !v {
			return "", nil
		}
	case string:
		return v, nil
	default:
		if n := number(v); n != "" {
			return n, nil
		}
	}
	return "", p.wrong(path, "want a link, a cursor or null, got %s", Clip(gojq.Preview(v)))
}
