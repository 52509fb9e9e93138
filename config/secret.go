package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
)

// mask replaces a secret.
const mask = "********"

// Secret is text that only [Secret.Reveal] returns. Printed by fmt with any verb, logged by slog,
// or encoded as JSON, YAML or text, it is "********", or "" when there is none. The zero Secret is
// empty.
type Secret struct {
	// A pointer, because fmt prints another struct's unexported fields without calling their
	// methods: this way it prints an address.
	text *string
}

// NewSecret keeps text as a secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal returns the secret itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Equal reports whether both hold the same text.
func (s Secret) Equal(t Secret) bool { return s.Reveal() == t.Reveal() }

// String returns the mask.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return mask
}

// Format masks under every verb.
func (s Secret) Format(f fmt.State, verb rune) { formatMasked(f, verb, s.String()) }

// LogValue masks in slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON masks in JSON.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// MarshalText masks in text encodings.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML masks in YAML.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// URL is an address that may contain a password. It masks the password and shows the rest:
// redis://app:xxxxx@redis:6379/0.
type URL struct {
	text *string
}

// NewURL keeps text as an address.
func NewURL(text string) URL {
	if text == "" {
		return URL{}
	}
	return URL{text: &text}
}

// Reveal returns the address with its password.
func (u URL) Reveal() string {
	if u.text == nil {
		return ""
	}
	return *u.text
}

// Equal reports whether both are the same address, password included.
func (u URL) Equal(v URL) bool { return u.Reveal() == v.Reveal() }

// String returns the address without its password.
func (u URL) String() string { return maskURL(u.Reveal()) }

// HasPassword reports whether String differs from Reveal.
func (u URL) HasPassword() bool { return u.String() != u.Reveal() }

// Format masks under every verb.
func (u URL) Format(f fmt.State, verb rune) { formatMasked(f, verb, u.String()) }

// LogValue masks in slog.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalJSON masks in JSON.
func (u URL) MarshalJSON() ([]byte, error) { return json.Marshal(u.String()) }

// MarshalText masks in text encodings.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// MarshalYAML masks in YAML.
func (u URL) MarshalYAML() (any, error) { return u.String(), nil }

// formatMasked prints text for verb, which for %x and the like gives the hexadecimal of the mask.
func formatMasked(f fmt.State, verb rune, text string) {
	if verb == 'v' || verb == 'd' || verb == 'T' || verb == 'p' {
		verb = 's'
	}
	_, _ = fmt.Fprintf(f, "%"+string(verb), text)
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
	masked := false
	if _, has := u.User.Password(); has {
		u.User, masked = url.UserPassword(u.User.Username(), "xxxxx"), true
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return mask
	}
	for name, values := range query {
		lower := strings.ToLower(name)
		if !strings.Contains(lower, "password") && !strings.Contains(lower, "token") {
			continue
		}
		for i := range values {
			values[i], masked = "xxxxx", true
		}
	}
	if !masked {
		return text
	}
	if u.RawQuery != "" {
		u.RawQuery = query.Encode()
	}
	return u.String()
}
