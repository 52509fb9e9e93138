package mapping

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/itchyny/gojq"

	"vitrine/upstream/shape"
)

// Append appends a program's value to dst, which may grow to limit bytes unless that is 0.
// Documented members are in the documented order. Its error is a *shape.RefusedError whose path
// begins with path.
func Append(dst []byte, path string, v any, limit int) ([]byte, error) {
	dst, err := appendValue(dst, v, limit, 0)
	return dst, below(path, err)
}

// below prepends a step to the path of a refusal, so that paths are only made for refusals.
func below(step string, err error) error {
	if refused, ok := errors.AsType[*shape.RefusedError](err); ok {
		refused.Path = step + refused.Path
	}
	return err
}

func appendValue(dst []byte, v any, limit, depth int) ([]byte, error) {
	if depth > maxDepth {
		return dst, refuse("", fmt.Sprintf("at most %d levels", maxDepth), "more")
	}
	if limit > 0 && len(dst) > limit {
		return dst, refuse("", fmt.Sprintf("at most %d bytes", limit), "more")
	}
	var err error
	switch v := v.(type) {
	case string:
		if dst, err = jsontext.AppendQuote(dst, v); err != nil {
			return dst, refuse("", "text in UTF-8", "other bytes")
		}
	case []any:
		dst = append(dst, '[')
		for i, item := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendValue(dst, item, limit, depth+1); err != nil {
				return dst, below(index("", i), err)
			}
		}
		dst = append(dst, ']')
	case map[string]any:
		if dst, err = appendObject(dst, v, limit, depth); err != nil {
			return dst, err
		}
	case json.Number:
		dst = append(dst, v...)
	default: // null, a boolean, or a number as jq writes it: NaN is null, infinities are the largest
		scalar, _ := gojq.Marshal(v) // of one of gojq's types
		dst = append(dst, scalar...)
	}
	if limit > 0 && len(dst) > limit {
		return dst, refuse("", fmt.Sprintf("at most %d bytes", limit), "more")
	}
	return dst, nil
}

func appendObject(dst []byte, object map[string]any, limit, depth int) ([]byte, error) {
	names := slices.Collect(maps.Keys(object))
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = jsontext.AppendQuote(dst, name); err != nil {
			return dst, refuse("", "names in UTF-8", "other bytes")
		}
		dst = append(dst, ':')
		if dst, err = appendValue(dst, object[name], limit, depth+1); err != nil {
			return dst, below(join("", name), err)
		}
	}
	return append(dst, '}'), nil
}

// documented is an order of names that agrees with the documented order of objects that normalizing
// passes through: excluded pages, and the parents of cities.
var documented = []string{
	"id", "typeof", "title", "name", "url", "zip", "description", "order_num", "created_at", "updated_at", "country", "parent",
}

func rank(name string) int {
	if i := slices.Index(documented, name); i >= 0 {
		return i
	}
	return len(documented)
}
