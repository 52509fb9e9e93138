package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vitrine/upstream/mapping"
)

// A rule is what a text must be.
type rule struct {
	allowed string
	check   func(text string) error // nil: anything but the empty text, as far as this package knows
}

// rules are by the names that the tags of [Config] have for them.
var rules = map[string]rule{
	"address":        {"an address as HOST:PORT or :PORT", checkAddress},
	"file":           {"a file that can be read and is not empty", nil},
	"folder":         {"a folder", checkFolder},
	"header":         {"the value of an Authorization header in printable ASCII", checkHeader},
	"header name":    {"a header name", checkHeaderName},
	"hosts":          {"a list of host names and addresses such as vitrine,10.0.0.7", checkHosts},
	"jq program":     {"a jq program", nil},
	"log file":       {"a file that can be written", nil},
	"mapping":        {"a mapping", nil},
	"method":         {"a method in capitals", matches(`^[A-Z]{3,16}$`)},
	"origins":        {"* or a list of origins such as https://shop.example", checkOrigins},
	"parts":          {"a list of parts", nil},
	"path":           {"a path relative to the upstream URL, without ..", nil},
	"PEM file":       {"a file in PEM", nil},
	"predicate":      {"a jq program", checkPredicate},
	"prefix":         {"1 to 64 printable ASCII characters without spaces, quotes or * ? [ ] \\", checkPrefix},
	"preset":         {"a name that vitrine presets lists, or a file with a slash in its name or ending in .yaml", checkPreset},
	"proxies":        {"networks such as 10.0.0.0/8, addresses, and unix for connections over a unix socket", checkProxies},
	"public address": {"an address as HOST:PORT or :PORT, or unix:PATH", checkPublicAddress},
	"redis":          {"embedded:, embedded:PORT, redis://HOST[:PORT][/DB], rediss:// or unix://PATH", checkRedis},
	"target's name":  {"1 to 40 of a-z, 0-9, - and _", matches(`^[a-z0-9_-]{1,40}$`)},
	"target's URL":   {"http(s)://HOST[:PORT][/PATH] without a user", checkTargetURL},
	"targets":        {"a list of targets", nil},
	"token":          {"8 to 512 printable ASCII characters without spaces", checkToken},
	"upstream":       {"sample:, file:DIR, or http(s)://HOST[:PORT][/BASE]", nil},
}

// matches allows what a pattern matches.
func matches(pattern string) func(string) error {
	allowed := regexp.MustCompile(pattern)
	return func(text string) error {
		if !allowed.MatchString(text) {
			return errUnsaid
		}
		return nil
	}
}

// checkTargetURL allows the URLs of those who are told of changes.
func checkTargetURL(text string) error {
	if u, err := url.Parse(text); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return errUnsaid
	}
	return nil
}

// checkAddress allows the addresses of net.Listen with a numeric port.
func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		if address, ok := errors.AsType[*net.AddrError](err); ok {
			return errors.New(address.Err)
		}
		return err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("the port must be a number from 0 to 65535")
	} else if n == 0 && port != "0" {
		return errUnsaid
	}
	if strings.ContainsAny(text, " \t/@") {
		return errUnsaid
	}
	return nil
}

// longestSocket is Linux's limit for the path of a unix socket in bytes, the highest of any system.
const longestSocket = 107

// checkPublicAddress also allows a unix socket.
func checkPublicAddress(text string) error {
	path, ok := strings.CutPrefix(text, "unix:")
	switch {
	case !ok:
		return checkAddress(text)
	case path == "":
		return errors.New("the socket's path is missing")
	case len(path) > longestSocket:
		return fmt.Errorf("the socket's path has %d bytes, the maximum is %d", len(path), longestSocket)
	}
	return nil
}

// checkFolder allows a folder that can be read.
func checkFolder(dir string) error {
	if _, err := os.ReadDir(dir); err != nil {
		return cause(err)
	}
	return nil
}

// checkHeader allows valid header values.
func checkHeader(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return errors.New("it has a line break or another character not allowed in a header")
	}
	if strings.TrimSpace(text) != text {
		return errors.New("it begins or ends with a space")
	}
	return nil
}

// checkRedis allows the forms of a store's address. go-redis checks the rest when it is opened.
func checkRedis(text string) error {
	if text, ok := strings.CutPrefix(text, "embedded:"); ok {
		if text == "" {
			return nil
		}
		if _, err := strconv.ParseUint(strings.TrimPrefix(text, "127.0.0.1:"), 10, 16); err != nil {
			return errors.New("the store inside the process listens on loopback alone, 127.0.0.1; a redis-server is for several hosts")
		}
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("not an address")
	case (u.Scheme == "redis" || u.Scheme == "rediss") && u.Hostname() == "":
		return errors.New("the host is missing")
	case u.Scheme == "unix" && u.Path == "":
		return errors.New("the socket's path is missing")
	case u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix":
		return errUnsaid
	}
	return nil
}

// checkPredicate allows programs that need no definitions.
func checkPredicate(text string) error {
	_, err := mapping.Compile("", "", text)
	if wrong, ok := errors.AsType[*mapping.ProgramError](err); ok {
		return wrong.Where()
	}
	return err
}

// checkPrefix allows characters that need no escaping in redis-cli and in SCAN's patterns.
func checkPrefix(text string) error {
	if len(text) > 64 {
		return fmt.Errorf("it has %d characters", len(text))
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`*?[]\"'`, r) }) {
		return errUnsaid
	}
	return nil
}

// checkProxies allows networks, addresses and the word unix.
func checkProxies(text string) error {
	for _, item := range splitList(text) {
		network, err := netip.ParsePrefix(item)
		switch {
		case item == "unix":
		case err == nil && network != network.Masked():
			return fmt.Errorf("%s is an address, not a network; the network is %s", item, network.Masked())
		case err != nil:
			if _, err := netip.ParseAddr(item); err != nil || strings.Contains(item, "%") {
				return fmt.Errorf("%q is not a network", item)
			}
		}
	}
	return nil
}

var headerName = regexp.MustCompile(`^[\w-]+$`)

// checkHeaderName allows names of headers but Forwarded.
func checkHeaderName(text string) error {
	if !headerName.MatchString(text) {
		return errUnsaid
	}
	if strings.EqualFold(text, "Forwarded") {
		return errors.New("that header's format is not supported; let the proxy send X-Forwarded-For")
	}
	return nil
}

// checkOrigins allows * alone, or origins in the form that browsers send.
func checkOrigins(text string) error {
	origins := splitList(text)
	if len(origins) > 1 && slices.Contains(origins, "*") {
		return errors.New("* must be alone")
	}
	for _, origin := range origins {
		if origin == "*" {
			continue
		}
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin || origin != strings.ToLower(origin) {
			return fmt.Errorf("%q is not an origin: want a scheme and a host in lower case, without a path or trailing slash", origin)
		}
	}
	return nil
}

// checkHosts allows host names and addresses, without a port.
func checkHosts(text string) error {
	for _, host := range splitList(text) {
		if strings.ContainsAny(host, "/@* []") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return fmt.Errorf("%q is not a host name or an address", host)
		}
	}
	return nil
}

// checkToken allows tokens that can be sent as a bearer token and typed as a password. Anybody can
// try them without limit, so a short one protects nothing.
func checkToken(text string) error {
	switch {
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("it has a space or a character not allowed in a header")
	case len(text) < 8 || len(text) > 512:
		return fmt.Errorf("it has %d characters", len(text))
	}
	return nil
}

// splitList reads a comma-separated list.
func splitList(text string) []string {
	var out []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
