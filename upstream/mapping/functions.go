package mapping

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/url"
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
	return append([]gojq.CompilerOption{
		// stable_id: the same integer for the same text, for a CMS whose ids are strings.
		ofText("stable_id", func(text string) any { return stableID(text) }),
		// html_text: the text of HTML, as it is shown.
		ofText("html_text", func(text string) any { return htmlText(text) }),
		// resolve_url(base): a relative URL made absolute; null, "" and absolute ones stay.
		gojq.WithFunction("resolve_url", 1, 1, func(v any, args []any) any { return resolveURL(v, args[0]) }),
		// from_epoch_ms: the timestamp of milliseconds since 1970, as a number or digits.
		gojq.WithFunction("from_epoch_ms", 0, 0, func(v any, _ []any) any { return fromEpoch(v) }),
	}, deepFunctions()...)
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
