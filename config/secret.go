package config

import (
	"fmt"
	"net/url"
	"regexp"
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

// secretive are the names of parameters, headers and keys whose values may be secrets: api_key, but
// neither keyword nor author.
var secretive = regexp.MustCompile(`(?i)token|key([^a-z]|$)|secret|pass|auth([^o]|oriz|$)|cookie|session|signature`)

// isSecret reports whether the value of a key, by the last of its names, may be a secret.
func isSecret(key string) bool {
	name := key[strings.LastIndexByte(key, '.')+1:]
	return secretive.MatchString(name) && !strings.HasSuffix(name, "_url") && !strings.HasSuffix(name, "_path") && !strings.HasSuffix(name, "_file")
}

// maskURL masks the password of an address and query parameters whose names are those of secrets.
// An address that cannot be parsed is masked as a whole, as is one with a password in the wrong
// place: app:secret@redis.
func maskURL(text string) string {
	if !strings.ContainsAny(text, "@?#") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil || u.Fragment != "" || u.Scheme != "file" && u.Scheme != "unix" && strings.Contains(u.Opaque+u.Path, "@") {
		return mask
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return mask
	}
	_, masked := u.User.Password()
	if u.User != nil && !masked && strings.HasPrefix(u.Scheme, "http") { // a token as the user's name
		u.User, masked = url.User("xxxxx"), true
	}
	for name, values := range query {
		if isSecret(name) {
			query[name], masked = slices.Repeat([]string{"xxxxx"}, len(values)), true
		}
	}
	if !masked {
		return text
	}
	u.RawQuery = query.Encode()
	return u.Redacted()
}
