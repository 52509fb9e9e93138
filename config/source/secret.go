package source

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// mask stands for a secret.
const mask = "***"

// Secret is text that only Reveal shows. Printed by fmt with any verb, logged by slog, or encoded as
// JSON, YAML or text, it is "***", or "" when there is none. The zero Secret is empty.
type Secret struct {
	// A pointer, because fmt prints what is inside another struct's unexported field without asking
	// its methods: this way it finds an address.
	text  *string
	shown string
}

// URL is an address that may hold a password. It shows the rest: redis://app:***@redis:6379/0.
type URL struct{ Secret }

// NewSecret keeps text as a secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text, shown: mask}
}

// NewURL keeps text as an address. The user of an http URL may be a token, as may anything in a query.
func NewURL(text string) URL {
	hidden := URL{Secret{text: &text, shown: text}}
	if !strings.ContainsAny(text, "@?#") {
		return hidden
	}
	u, err := url.Parse(text)
	if err != nil || u.Fragment != "" || u.Host == "" && u.Scheme != "file" && u.Scheme != "unix" {
		hidden.shown = mask // a password may be anywhere: app:secret@redis
		return hidden
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), mask)
	} else if u.User != nil && strings.HasPrefix(u.Scheme, "http") {
		u.User = url.User(mask)
	}
	if u.RawQuery != "" {
		u.RawQuery = mask
	}
	hidden.shown = strings.ReplaceAll(u.String(), "%2A", "*")
	return hidden
}

// Host is an address up to its host, and a mask for the rest, if there is more than a slash.
func Host(text string) string {
	at := strings.Index(text, "://") + 1
	if at > 0 {
		at += 2
	}
	end := strings.IndexAny(text[at:], "/?#")
	switch {
	case strings.Contains(text, "@"):
		return text[:at] + mask
	case end < 0 || text[at+end:] == "/":
		return text
	}
	return text[:at+end] + "/" + mask
}

// words are the placeholders of a target's path, and what stands between these and its separators.
var words = regexp.MustCompile(`\{[a-z]+\}|[^{}/?&=]+`)

// Path is a target's path with masks for all but its placeholders.
func Path(text string) string {
	return words.ReplaceAllStringFunc(text, func(word string) string {
		if strings.HasPrefix(word, "{") {
			return word
		}
		return mask
	})
}

// Words are what [Path] masks, but for words that are too short for a secret.
func Words(text string) []string {
	return slices.DeleteFunc(words.FindAllString(text, -1), func(word string) bool { return strings.HasPrefix(word, "{") || len(word) < 4 })
}

// Reveal returns the text itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Equal reports whether both hold the same text. Package cmp calls it.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// String returns what may be seen.
func (s Secret) String() string { return s.shown }

// MarshalText masks in logs, JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.shown), nil }

// Format masks under every verb. Under %x and the like it prints the mask's own hexadecimal.
func (s Secret) Format(f fmt.State, verb rune) {
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), s.shown)
}
