package config

import (
	"fmt"
	"net/url"
	"strings"
)

// mask replaces a secret.
const mask = "********"

// Secret is text that shows itself only to Reveal. Printed by fmt with any verb, logged by slog, or
// encoded as JSON, YAML or text, it is "********", or "" when there is none. The zero Secret is
// empty.
type Secret = hidden[opaque]

// URL is an address that may hold a password. Like [Secret] it keeps it to itself, but it shows the
// rest: redis://app:xxxxx@redis:6379/0.
type URL = hidden[address]

// NewSecret keeps text as a secret.
func NewSecret(text string) Secret { return keep[opaque](text) }

// NewURL keeps text as an address.
func NewURL(text string) URL { return keep[address](text) }

// A shower says how much of a text may be seen.
type shower interface{ show(text string) string }

type (
	opaque  struct{}
	address struct{}
)

func (address) show(text string) string { return maskURL(text) }

func (opaque) show(text string) string {
	if text == "" {
		return ""
	}
	return mask
}

// hidden is text that shows itself only to Reveal.
type hidden[S shower] struct {
	// A pointer, because fmt prints what is inside another struct's unexported field without asking
	// its methods: this way it finds an address.
	text *string
}

func keep[S shower](text string) hidden[S] {
	if text == "" {
		return hidden[S]{}
	}
	return hidden[S]{text: &text}
}

// Reveal returns the text itself.
func (h hidden[S]) Reveal() string {
	if h.text == nil {
		return ""
	}
	return *h.text
}

// Equal reports whether both hold the same text.
func (h hidden[S]) Equal(other hidden[S]) bool { return h.Reveal() == other.Reveal() }

// String returns what may be seen.
func (h hidden[S]) String() string {
	var s S
	return s.show(h.Reveal())
}

// Hides reports whether String differs from Reveal.
func (h hidden[S]) Hides() bool { return h.String() != h.Reveal() }

// MarshalText masks in logs, JSON and YAML.
func (h hidden[S]) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// Format masks under every verb. Under %x and the like it prints the mask's own hexadecimal.
func (h hidden[S]) Format(f fmt.State, verb rune) {
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), h.String())
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
