package mapping

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/itchyny/gojq"
	"golang.org/x/net/html"
)

// functions are the functions of programs besides jq's own.
func functions() []gojq.CompilerOption {
	return []gojq.CompilerOption{
		// need("name"): .name, or an error for a missing key, where jq has null.
		gojq.WithFunction("need", 1, 1, func(v any, args []any) any { return need(v, args[0]) }),
		// rename({"theirs": "ours"}): the object with keys renamed; each must be there.
		gojq.WithFunction("rename", 1, 1, func(v any, args []any) any { return rename(v, args[0]) }),
		// stable_id: the same integer for the same text, for a CMS whose ids are strings.
		gojq.WithFunction("stable_id", 0, 0, func(v any, _ []any) any {
			text, ok := v.(string)
			if !ok {
				return fmt.Errorf("stable_id wants a text, got %s", gojq.TypeOf(v))
			}
			return stableID(text)
		}),
		// html_text: the text of HTML, without tags, entities decoded.
		gojq.WithFunction("html_text", 0, 0, func(v any, _ []any) any {
			text, ok := v.(string)
			if !ok {
				return fmt.Errorf("html_text wants a text, got %s", gojq.TypeOf(v))
			}
			return htmlText(text)
		}),
		// resolve_url(base): a relative URL made absolute; null, "" and absolute ones stay.
		gojq.WithFunction("resolve_url", 1, 1, func(v any, args []any) any { return resolveURL(v, args[0]) }),
		// from_epoch_ms: the timestamp of milliseconds since 1970, as a number or digits.
		gojq.WithFunction("from_epoch_ms", 0, 0, func(v any, _ []any) any { return fromEpoch(v) }),
	}
}

func need(v, key any) any {
	object, isObject := v.(map[string]any)
	name, isText := key.(string)
	switch {
	case !isText:
		return fmt.Errorf("need wants the name of a key, got %s", gojq.TypeOf(key))
	case !isObject:
		return fmt.Errorf("need(%q) wants an object, got %s", name, gojq.TypeOf(v))
	}
	value, there := object[name]
	if !there {
		return fmt.Errorf("key %q is missing: not there, not expanded, or not permitted", name)
	}
	return value
}

func rename(v, names any) any {
	object, isObject := v.(map[string]any)
	table, isTable := names.(map[string]any)
	switch {
	case !isTable:
		return fmt.Errorf("rename wants {theirs: ours}, got %s", gojq.TypeOf(names))
	case !isObject:
		return fmt.Errorf("rename wants an object, got %s", gojq.TypeOf(v))
	}
	renamed := make(map[string]any, len(object))
	for key, value := range object {
		if _, moved := table[key]; !moved {
			renamed[key] = value
		}
	}
	for _, theirs := range sortedKeys(table) {
		ours, isText := table[theirs].(string)
		if !isText {
			return fmt.Errorf("rename wants a name for %q, got %s", theirs, gojq.TypeOf(table[theirs]))
		}
		value, there := object[theirs]
		if !there {
			return fmt.Errorf("key %q is missing: not there, not expanded, or not permitted", theirs)
		}
		renamed[ours] = value
	}
	return renamed
}

func sortedKeys(object map[string]any) []string {
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
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
			return fmt.Errorf("from_epoch_ms wants milliseconds, got %q", gojq.Preview(v))
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

// htmlText is the text of a piece of HTML as an editor's field holds it: without tags, comments,
// scripts and styles, its entities read.
func htmlText(in string) string {
	if !strings.ContainsAny(in, "<&") {
		return in
	}
	var out strings.Builder
	skipped := false // a script or a style, whose text follows its tag
	for z := html.NewTokenizer(strings.NewReader(in)); ; {
		switch z.Next() {
		case html.ErrorToken: // the end
			return strings.TrimSpace(out.String())
		case html.TextToken:
			if !skipped {
				out.Write(z.Text())
			}
		case html.StartTagToken:
			name, _ := z.TagName()
			skipped = string(name) == "script" || string(name) == "style"
		case html.EndTagToken:
			skipped = false
		}
	}
}
