package source

import (
	"fmt"
	"io"
	"net/url"
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

// Public keeps text as one that is none.
func Public(text string) Secret { return Secret{text: &text, shown: text} }

// NewEndpoint keeps text as an address of which only the host is shown: at most chats, the path is a
// credential.
func NewEndpoint(text string) URL { return URL{Secret{text: &text, shown: Host(text)}} }

// NewURL keeps text as an address. The user of an http URL may be a token, as may anything in a query.
func NewURL(text string) URL {
	hidden := URL{Public(text)}
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
	start := strings.Index(text, "://") + len("://")
	if start < len("://") {
		start = 0
	}
	end := strings.IndexAny(text[start:], "/?#")
	switch {
	case strings.Contains(text, "@"):
		return text[:start] + mask
	case end < 0 || text[start+end:] == "/":
		return text
	}
	return text[:start+end] + "/" + mask
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

// Secrets are texts to be masked, which do not print either.
type Secrets []string

// Format masks them under every verb.
func (Secrets) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, mask) }
