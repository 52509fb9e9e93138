package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Refuse returns an error of Load's kind about the value of the setting called key, for a problem
// that is found only later, when the address or file is opened.
func (c Config) Refuse(key string, why error) *Error {
	s, _ := Lookup(key)
	return refuse(key, c.places[key], s.typ, s.tag, s.text(&c), why)
}

// RefuseBelow is Refuse for a value below a tree, by its whole key,
// upstream.resources.banners.parts[0].map, and the line of its text; 0 is that of the value. A
// value that was not given is placed where the next one above it is.
func (c Config) RefuseBelow(key string, line int, why error) *Error {
	return mistake(key, c.below(key, line), "%s", why)
}

// Place is where the value below a tree is written that RefuseBelow would refuse: FILE:LINE.
func (c Config) Place(key string) string { return c.below(key, 0).String() }

func (c Config) below(key string, line int) place {
	at, above := place{}, key
	for given := false; !given && above != ""; {
		if at, given = c.places[above]; !given {
			above = above[:max(0, strings.LastIndexAny(above, ".["))]
		}
	}
	if at.name = key; above == key && line > 0 {
		at.line += line - 1
	}
	return at
}

// IsDefault reports whether nothing sets the setting called key.
func (c Config) IsDefault(key string) bool { return c.places[key].layer == fromDefault }

// A Change is a setting whose value changed. Its texts contain no secret; those of a mapping are
// empty.
type Change struct{ Key, From, To string }

// Changes lists the settings of c that differ from before, in the order of the table.
func (c Config) Changes(before Config) []Change {
	var out []Change
	for _, s := range settings {
		if !reflect.DeepEqual(s.field(&before).Interface(), s.field(&c).Interface()) {
			change := Change{Key: s.Key}
			if s.Env != "" {
				change.From, change.To = zeros.ReplaceAllString(fmt.Sprint(s.field(&before)), "$1"), zeros.ReplaceAllString(fmt.Sprint(s.field(&c)), "$1")
			}
			out = append(out, change)
		}
	}
	return out
}

// Fingerprint distinguishes this configuration from others. Secrets do not count, so that they
// cannot be guessed from it.
func (c Config) Fingerprint() string {
	sum := sha256.Sum256(c.YAML())
	return hex.EncodeToString(sum[:6])
}

// YAML returns the configuration in effect as a file, with *** for secrets, and with references as
// they were written.
func (c Config) YAML() []byte {
	var root yaml.Node
	_ = root.Encode(c) // none of its types fails
	c.finish(&root, "")
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	_ = encoder.Encode(&root) // into a buffer
	return out.Bytes()
}

var zeros = regexp.MustCompile(`([hm])(?:0[ms])+$`)

// finish leaves out of a value as YAML what says nothing, and puts references back. It reports
// whether anything is left.
func (c Config) finish(n *yaml.Node, key string) bool {
	s, isSetting := Lookup(key)
	if written := c.written[key]; written != "" {
		*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: written}
	} else if s.typ == reflect.TypeFor[time.Duration]() { // 5m, not 5m0s
		n.Value = zeros.ReplaceAllString(n.Value, "$1")
	}
	n.Style &^= yaml.FlowStyle // of JSON
	kept := n.Content[:0:0]
	for i, inner := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode:
			c.finish(inner, fmt.Sprintf("%s[%d]", key, i))
			kept = append(kept, inner)
		case i%2 == 1 && c.finish(inner, strings.TrimPrefix(key+"."+n.Content[i-1].Value, ".")):
			if secret, isFile := strings.CutSuffix(n.Content[i-1].Value, "_file"); isFile && len(kept) > 1 && kept[len(kept)-2].Value == secret {
				kept = kept[:len(kept)-2] // it came from the file
			}
			kept = append(kept, n.Content[i-1], inner)
		}
	}
	n.Content = kept
	isZero := n.Kind == yaml.ScalarNode && slices.Contains([]string{"", "0", "false", "null"}, n.Value) || n.Kind != yaml.ScalarNode && len(kept) == 0
	return !isZero || isSetting && s.Default+s.Inherits != "" || strings.Contains(key, ".body.")
}
