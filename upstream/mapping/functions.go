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

		// Those that follow look at objects at every depth, which would take jq many steps for each
		// value. They change copies, since a program may use its input again.

		// stable_ids(name): each object's id is the stable_id of its text of that name.
		gojq.WithFunction("stable_ids", 1, 1, func(v any, args []any) any {
			name, _ := args[0].(string)
			return everywhere(v, func(o *object) any {
				if text, ok := o.members[name].(string); ok {
					o.set("id", stableID(text))
				}
				return o.members
			})
		}),
		// rename_all({theirs: ours}): a member ours beside each theirs, unless there is one.
		gojq.WithFunction("rename_all", 1, 1, func(v any, args []any) any {
			names, ok := args[0].(map[string]any)
			if !ok {
				return fmt.Errorf("rename_all wants an object, got %s", gojq.TypeOf(args[0]))
			}
			return everywhere(v, func(o *object) any {
				for theirs, name := range names {
					ours, isText := name.(string)
					value, there := o.members[theirs]
					if _, taken := o.members[ours]; isText && there && !taken {
						o.set(ours, value)
					}
				}
				return o.members
			})
		}),
		// ids_of(name): an object that is a member of that name is replaced by its id.
		gojq.WithFunction("ids_of", 1, 1, func(v any, args []any) any {
			name, _ := args[0].(string)
			return everywhere(v, func(o *object) any {
				if inner, ok := o.members[name].(map[string]any); ok && inner["id"] != nil {
					o.set(name, inner["id"])
				}
				return o.members
			})
		}),
		// unwrap_attributes: {"data": …} and {"id", "attributes": {…}} without their wrappers.
		gojq.WithFunction("unwrap_attributes", 0, 0, func(v any, _ []any) any { return everywhere(v, unwrap) }),
		// far_ends: the far end of each row of a junction table.
		gojq.WithFunction("far_ends", 0, 0, func(v any, _ []any) any { return everywhere(v, farEnd) }),
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

// An object is one that a function may change. It is copied when it is changed first.
type object struct {
	members map[string]any
	copied  bool
}

func (o *object) set(name string, value any) {
	if !o.copied {
		o.members, o.copied = maps.Clone(o.members), true
	}
	o.members[name] = value
}

// everywhere replaces each object in v by what change returns, the inner ones first.
func everywhere(v any, change func(*object) any) any {
	v, _ = replace(v, change)
	return v
}

// replace also reports whether v was replaced.
func replace(v any, change func(*object) any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		o := &object{members: v}
		for name, member := range v {
			if made, replaced := replace(member, change); replaced {
				o.set(name, made)
			}
		}
		made := change(o)
		same, isObject := made.(map[string]any)
		return made, o.copied || !isObject || len(same) != len(v)
	case []any:
		var list []any
		for i, element := range v {
			made, replaced := replace(element, change)
			if replaced && list == nil {
				list = slices.Clone(v)
			}
			if replaced {
				list[i] = made
			}
		}
		if list != nil {
			return list, true
		}
	}
	return v, false
}

// unwrap removes a wrapper whose inside has lost its own. Data is an object without attributes, a
// list, or null; a component has no wrapper.
func unwrap(o *object) any {
	members := o.members
	if data, ok := members["data"]; ok && len(members) == 1 {
		switch data.(type) {
		case nil, map[string]any, []any:
			o.copied = true
			return data
		}
	}
	attributes, ok := members["attributes"].(map[string]any)
	_, hasID := members["id"]
	if !ok || !hasID || len(members) > 3 { // id, attributes, and perhaps documentId
		return members
	}
	inner := &object{members: attributes}
	inner.set("id", members["id"])
	o.copied = true
	return inner.members
}

// farEnd replaces a row of a many-to-many relation, {"id", "rules_id", "pages_id": {…}}, by the one
// of its ends that is expanded: all of its keys but the id end in _id. If the near end is expanded
// too, the page is the far end: the only such relation in the documents is the pages that a rule
// excludes.
func farEnd(o *object) any {
	members := o.members
	var far, page map[string]any
	expanded := 0
	for name, value := range members {
		if name == "id" || name == "sort" {
			continue
		}
		if len(name) < 3 || name[len(name)-3:] != "_id" {
			return members
		}
		if inner, ok := value.(map[string]any); ok {
			far = inner
			expanded++
			if name[0:min(4, len(name))] == "page" {
				page = inner
			}
		}
	}
	switch {
	case expanded == 1:
		o.copied = true
		return far
	case expanded > 1 && page != nil:
		o.copied = true
		return page
	}
	return members
}

// marked returns the path of the first mark in v, or "".
func marked(v any, marks map[string]any) string {
	switch v := v.(type) {
	case map[string]any:
		for name, mark := range marks {
			value, there := v[name]
			if one, ok := mark.([]any); there && (ok && slices.ContainsFunc(one, func(m any) bool { return gojq.Compare(m, value) == 0 }) || !ok && gojq.Compare(mark, value) == 0) {
				return join("", name)
			}
		}
		for name, member := range v {
			if found := marked(member, marks); found != "" {
				return first(v, marks, name, found)
			}
		}
	case []any:
		for i, element := range v {
			if found := marked(element, marks); found != "" {
				return index("", i) + found
			}
		}
	}
	return ""
}

// first returns the mark that comes first by the names of members, so that a message is the same
// each time. One is known already.
func first(object map[string]any, marks map[string]any, known, found string) string {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if name == known {
			break
		}
		if at := marked(object[name], marks); at != "" {
			return join("", name) + at
		}
	}
	return join("", known) + found
}
