package main

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"vitrine/upstream/shape"
)

// Bounds of an abbreviated item.
const (
	mostOfText = 24  // characters of a text in it
	mostOfItem = 120 // characters of all of it
)

// firstItems returns the first item of each list of doc, abbreviated to a line; "" for an empty
// list. The document is a normalized one.
func firstItems(doc shape.Document) []string {
	first := make([]string, len(doc.Lists))
	d := jsontext.NewDecoder(bytes.NewReader(doc.Body))
	if len(doc.Lists) > 1 {
		_, _ = d.ReadToken() // the object with the lists
	}
	for i, list := range doc.Lists {
		if len(doc.Lists) > 1 {
			_, _ = d.ReadToken() // the list's name
		}
		_, _ = d.ReadToken()
		for n := range list.Items {
			value, err := d.ReadValue()
			if err != nil {
				return first
			}
			if n == 0 {
				first[i] = clipped(abbreviate(value, 0), mostOfItem)
			}
		}
		_, _ = d.ReadToken()
	}
	return first
}

// abbreviate writes a value with its strings shortened, and nested values from depth 2 on as {…}
// and […].
func abbreviate(value jsontext.Value, depth int) string {
	switch value.Kind() {
	case '"':
		text := strings.TrimSuffix(strings.TrimPrefix(string(value), `"`), `"`)
		return `"` + clipped(text, mostOfText) + `"`
	case '{', '[':
	default:
		return string(value)
	}
	d := jsontext.NewDecoder(bytes.NewReader(value))
	opening, err := d.ReadToken()
	if err != nil {
		return ""
	}
	closing := "}"
	if opening.Kind() == '[' {
		closing = "]"
	}
	var parts []string
	for d.PeekKind() != jsontext.Kind(closing[0]) {
		part := ""
		if closing == "}" {
			name, err := d.ReadToken()
			if err != nil {
				return ""
			}
			part = name.String() + ":"
		}
		inner, err := d.ReadValue()
		if err != nil {
			return ""
		}
		parts = append(parts, part+abbreviate(inner, depth+1))
	}
	if depth > 0 && len(parts) > 0 {
		return opening.String() + "…" + closing
	}
	return opening.String() + strings.Join(parts, " ") + closing
}

// clipped returns at most most characters of text, without control characters.
func clipped(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\u200d' { // which joins emoji
			return r
		}
		return utf8.RuneError
	}, text)
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}
