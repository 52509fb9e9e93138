package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// mask replaces a secret.
const mask = "********"

// Secret is text that shows itself only to Reveal. Printed by fmt with any verb, logged by slog, or
// encoded as JSON, YAML or text, it is "********", or "" when there is none. The zero Secret is
// empty.
type Secret struct {
	// A pointer, because fmt prints what is inside another struct's unexported field without asking
	// its methods: this way it finds an address.
	text  *string
	shown string
}

// URL is an address that may hold a password. Like [Secret] it keeps it to itself, but it shows the
// rest: redis://app:xxxxx@redis:6379/0.
type URL struct{ Secret }

// NewSecret keeps text as a secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text, shown: mask}
}

// NewURL keeps text as an address.
func NewURL(text string) URL { return URL{Secret{text: &text, shown: maskURL(text)}} }

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

// Hides reports whether String differs from Reveal.
func (s Secret) Hides() bool { return s.shown != s.Reveal() }

// MarshalText masks in logs, JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.shown), nil }

// Format masks under every verb. Under %x and the like it prints the mask's own hexadecimal.
func (s Secret) Format(f fmt.State, verb rune) {
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), s.shown)
}

// maskURL masks the password of an address and query parameters called …password or …token. An
// address that cannot be parsed is masked as a whole, as is one with a password in the wrong place:
// app:secret@redis.
func maskURL(text string) string {
	if !strings.Contains(text, "@") && !strings.Contains(text, "?") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "file" && u.Scheme != "unix" && strings.Contains(u.Opaque+u.Path, "@") {
		return mask
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return mask
	}
	_, masked := u.User.Password()
	for name, values := range query {
		if lower := strings.ToLower(name); strings.Contains(lower, "password") || strings.Contains(lower, "token") {
			query[name], masked = slices.Repeat([]string{"xxxxx"}, len(values)), true
		}
	}
	if !masked {
		return text
	}
	u.RawQuery = query.Encode()
	return u.Redacted()
}
