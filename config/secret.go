package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
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

// The most bytes of a file with one value, which is far more than any header or URL, and of one
// with settings. A wrong path does not fill memory.
const (
	secretLimit = 64 << 10
	fileLimit   = 1 << 20
)

// pipePatience is how long a pipe is waited for, as one that a program decrypts into.
const pipePatience = 10 * time.Second

// readFile reads a file, perhaps a device or a pipe, which do not say how much they have.
func readFile(path string, most int64) ([]byte, error) { return readWithin(pipePatience, path, most) }

// readWithin opens without blocking, since a pipe blocks until somebody writes to it. Until then it
// is empty.
func readWithin(patience time.Duration, path string, most int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, cause(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, cause(err)
	}
	until, isPipe := time.Now().Add(patience), info.Mode()&fs.ModeNamedPipe != 0
	_ = file.SetReadDeadline(until) // fails for an ordinary file, which needs none
	var content []byte
	for {
		content, err = io.ReadAll(io.LimitReader(file, most+1))
		if !isPipe || err != nil || len(content) > 0 || !time.Now().Before(until) {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), isPipe && err == nil && len(content) == 0:
		return nil, fmt.Errorf("nothing was written to this pipe in %v", patience)
	case errors.Is(err, syscall.EISDIR):
		return nil, errors.New("it is a folder")
	case err == nil && int64(len(content)) > most:
		return nil, fmt.Errorf("it has more than %s", Size(most))
	}
	return content, cause(err)
}

func readSecret(path string) (string, error) {
	content, err := readFile(path, secretLimit)
	text := strings.TrimSpace(string(content))
	if err == nil && text == "" {
		err = errors.New("it is empty")
	}
	return text, err
}
