package mapping

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/itchyny/gojq"

	"vitrine/upstream/shape"
)

// prelude comes before every program. need and rename fail for a missing key, where jq has null.
const prelude = `def need($key): if type != "object" then error("need(\($key | tojson)) wants an object, got \(type)")
  elif has($key) then .[$key] else error("key \($key | tojson) is missing: not there, not expanded, or not permitted") end;
def rename($names): . as $it | with_entries(select(.key as $key | $names | has($key) | not))
  + ($names | with_entries(.key as $theirs | {key: .value, value: ($it | need($theirs))}));
`

// functions are the functions of programs besides jq's own and those of prelude.
func functions() []gojq.CompilerOption {
	return []gojq.CompilerOption{
		// stable_id: the same integer for the same text, for a CMS whose ids are strings.
		ofText("stable_id", func(text string) any { return stableID(text) }),
		// html_text: the text of HTML, as it is shown.
		ofText("html_text", func(text string) any { return htmlText(text) }),
		// resolve_url(base): a relative URL made absolute; null, "" and absolute ones stay.
		gojq.WithFunction("resolve_url", 1, 1, func(v any, args []any) any { return resolveURL(v, args[0]) }),
		// from_epoch_ms: the timestamp of milliseconds since 1970, as a number or digits.
		gojq.WithFunction("from_epoch_ms", 0, 0, func(v any, _ []any) any { return fromEpoch(v) }),

		// missing(what): null, with a content warning, for a relation to an item that the CMS did not
		// send; in a list nothing.
		gojq.WithFunction("missing", 1, 1, func(_ any, args []any) any { return map[string]any{missingMark: args[0]} }),
		// Those that follow change objects at every depth, for which jq would take 15 times as long.

		// stable_ids(name): each object's id is the stable_id of its text of that name.
		everywhere("stable_ids", func(object map[string]any, name string) {
			if text, ok := object[name].(string); ok {
				object["id"] = stableID(text)
			}
		}),
		// rename_all({theirs: ours}): a member ours beside each theirs, unless there is one.
		everywhere("rename_all", func(object map[string]any, names map[string]any) {
			for theirs, name := range names {
				ours, isText := name.(string)
				value, there := object[theirs]
				if _, taken := object[ours]; isText && there && !taken {
					object[ours] = value
				}
			}
		}),
		// ids_of(name): an object that is a member of that name is replaced by its id.
		everywhere("ids_of", func(object map[string]any, name string) {
			if inner, ok := object[name].(map[string]any); ok && inner["id"] != nil {
				object[name] = inner["id"]
			}
		}),
		// marked({name: value}): the path of a member with such a value, or one of a list of values;
		// null if there is none.
		gojq.WithFunction("marked", 1, 1, func(v any, args []any) any {
			marks, ok := args[0].(map[string]any)
			if !ok {
				return fmt.Errorf("marked wants an object, got %s", gojq.TypeOf(args[0]))
			}
			if at := marked(v, marks); at != "" {
				return at
			}
			return nil
		}),
	}
}

// ofText is a function of a text, without arguments.
func ofText(name string, f func(text string) any) gojq.CompilerOption {
	return gojq.WithFunction(name, 0, 0, func(v any, _ []any) any {
		if text, ok := v.(string); ok {
			return f(text)
		}
		return fmt.Errorf("%s wants a text, got %s", name, gojq.TypeOf(v))
	})
}

// stableID is an integer above 0 that a float64 of JavaScript holds exactly. Of 100,000 texts two
// get the same one with a probability of one in a million.
func stableID(text string) int {
	sum := sha256.Sum256([]byte(text))
	return int(binary.BigEndian.Uint64(sum[:8])>>11) | 1<<30
}

func resolveURL(v, base any) any {
	relative, isText := v.(string)
	if v == nil || relative == "" && isText {
		return v
	}
	from, ok := base.(string)
	if !isText || !ok {
		return fmt.Errorf("resolve_url wants a text and a base, got %s and %s", gojq.TypeOf(v), gojq.TypeOf(base))
	}
	b, err := url.Parse(from)
	if err != nil {
		return fmt.Errorf("resolve_url wants a URL as its base")
	}
	u, err := b.Parse(relative)
	if err != nil {
		return fmt.Errorf("resolve_url wants a URL, got %s", gojq.Preview(v))
	}
	return u.String()
}

func fromEpoch(v any) any {
	if text, ok := v.(string); ok {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("from_epoch_ms wants milliseconds, got %s", gojq.Preview(v))
		}
		v = n
	}
	if v == nil {
		return nil
	}
	n, ok := gojq.ToInt(v)
	const most = 253402300799999 // the end of the year 9999
	if !ok || n < -62135596800000 || n > most {
		return fmt.Errorf("from_epoch_ms wants milliseconds, got %s", gojq.Preview(v))
	}
	return time.UnixMilli(int64(n)).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// everywhere is a function that changes each object in a copy of its input, the inner ones first: a
// program may use that again.
func everywhere[T any](name string, change func(object map[string]any, arg T)) gojq.CompilerOption {
	return gojq.WithFunction(name, 1, 1, func(v any, args []any) any {
		arg, ok := args[0].(T)
		if !ok {
			return fmt.Errorf("%s cannot take %s", name, gojq.Preview(args[0]))
		}
		return changed(v, func(object map[string]any) { change(object, arg) })
	})
}

func changed(v any, change func(object map[string]any)) any {
	switch v := v.(type) {
	case map[string]any:
		object := maps.Clone(v)
		for name, member := range v {
			object[name] = changed(member, change)
		}
		change(object)
		return object
	case []any:
		list := slices.Clone(v)
		for i, element := range v {
			list[i] = changed(element, change)
		}
		return list
	}
	return v
}

// marked returns the path of the first mark in v by the names of members, or "".
func marked(v any, marks map[string]any) string {
	switch v := v.(type) {
	case map[string]any:
		for name, mark := range marks {
			value, there := v[name]
			if one, ok := mark.([]any); there && (ok && slices.ContainsFunc(one, func(m any) bool { return gojq.Compare(m, value) == 0 }) || !ok && gojq.Compare(mark, value) == 0) {
				return shape.Member("", name)
			}
		}
		least, path := "", ""
		for name, member := range v {
			if path != "" && name > least {
				continue
			}
			if found := marked(member, marks); found != "" {
				least, path = name, shape.Member("", name)+found
			}
		}
		return path
	case []any:
		for i, element := range v {
			if found := marked(element, marks); found != "" {
				return shape.Index("", i) + found
			}
		}
	}
	return ""
}
