package mapping

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/itchyny/gojq"

	"vitrine/upstream/shape"
)

// Limits are those of what [Append] writes. The zero value is none.
type Limits struct {
	Bytes  int      // of all of dst; 0 for any number
	Ignore *Ignored // members that are left out; nil for none
	Items  int      // the depth of objects at which the items are: 1 in {"artist":[…]}, otherwise 0
	// Missing counts the values of the function missing, relations to items that the CMS did not send:
	// null is written for them, and in a list nothing. Nil does not count.
	Missing *shape.Repair
}

// missingMark is the only member of what the function missing returns.
const missingMark = "vitrine: missing"

// missing reports whether v is a value of that function.
func (l *Limits) missing(v any) bool {
	object, _ := v.(map[string]any)
	what, is := object[missingMark]
	if is && l.Missing != nil {
		l.Missing.Add(func() string { return Clip(fmt.Sprint(what)) })
	}
	return is
}

// Ignored are the names of a CMS's own members, which are left out of what is written.
type Ignored struct{ top, all map[string]bool }

// NewIgnored makes it from names, of members of an item, or with .. before them at every depth; nil
// if there are none.
func NewIgnored(names []string) *Ignored {
	if len(names) == 0 {
		return nil
	}
	i := &Ignored{make(map[string]bool), make(map[string]bool)}
	for _, name := range names {
		if deep, ok := strings.CutPrefix(name, ".."); ok {
			i.all[deep] = true
		} else {
			i.top[name] = true
		}
	}
	return i
}

// Append appends a program's value to dst, within limits. Members are in the order of their names.
// Its error is a *shape.RefusedError whose path begins with path.
func Append(dst []byte, path string, v any, limits Limits) ([]byte, error) {
	dst, err := limits.value(dst, v, 0, 0)
	return dst, below(path, err)
}

// below prepends a step to the path of a refusal, so that paths are only made for refusals.
func below(step string, err error) error {
	if refused, ok := errors.AsType[*shape.RefusedError](err); ok {
		refused.Path = step + refused.Path
	}
	return err
}

func (l *Limits) full(dst []byte) error {
	if l.Bytes > 0 && len(dst) > l.Bytes {
		return refuse("", fmt.Sprintf("at most %d bytes", l.Bytes), "more")
	}
	return nil
}

// value appends a value that is inside of so many levels, of which so many are objects.
func (l *Limits) value(dst []byte, v any, depth, objects int) ([]byte, error) {
	if depth > maxDepth {
		return dst, refuse("", fmt.Sprintf("at most %d levels", maxDepth), "more")
	}
	err := l.full(dst)
	if err != nil {
		return dst, err
	}
	switch v := v.(type) {
	case string:
		if dst, err = jsontext.AppendQuote(dst, v); err != nil {
			return dst, refuse("", "text in UTF-8", "other bytes")
		}
	case []any:
		dst = append(dst, '[')
		open := len(dst)
		for i, item := range v {
			if l.missing(item) {
				continue
			}
			if len(dst) > open {
				dst = append(dst, ',')
			}
			if dst, err = l.value(dst, item, depth+1, objects); err != nil {
				return dst, below(shape.Index("", i), err)
			}
		}
		dst = append(dst, ']')
	case map[string]any:
		if l.missing(v) {
			return append(dst, "null"...), nil
		}
		if dst, err = l.object(dst, v, depth, objects); err != nil {
			return dst, err
		}
	case json.Number:
		dst = append(dst, v...)
	default: // null, a boolean, or a number as jq writes it: NaN is null, infinities are the largest
		scalar, _ := gojq.Marshal(v) // of one of gojq's types
		dst = append(dst, scalar...)
	}
	return dst, l.full(dst)
}

func (l *Limits) object(dst []byte, object map[string]any, depth, objects int) ([]byte, error) {
	names := make([]string, 0, len(object))
	for name := range object {
		if i := l.Ignore; i == nil || (objects < l.Items || !i.all[name]) && (objects != l.Items || !i.top[name]) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
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
		if dst, err = l.value(dst, object[name], depth+1, objects+1); err != nil {
			return dst, below(shape.Member("", name), err)
		}
	}
	return append(dst, '}'), nil
}
