package config

import (
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A rule is what a text must be, or each item of a list. A check that is nil leaves it to the package
// that uses the text.
type rule struct {
	allowed string
	check   func(text string) bool
}

// rules are by the names that the tags of [Config] have for them.
var rules = map[string]rule{
	"address":         {"an address as HOST:PORT or :PORT, with a number as port", isAddress},
	"file":            {"a file that can be read and is not empty", nil},
	"folder":          {"a folder that can be read", isFolder},
	"header":          {"a header's value in printable ASCII, in one line", isHeader},
	"header name":     {"a header name other than Forwarded, whose format is not supported", isHeaderName},
	"hosts":           {"host names and addresses such as vitrine,10.0.0.7, without a port", isHost},
	"jq program":      {"a jq program", nil},
	"method":          {"a method in capitals", regexp.MustCompile(`^[A-Z]{3,16}$`).MatchString},
	"origins":         {"* alone, or origins such as https://shop.example, in lower case and without a path or slash", isOrigin},
	"PEM file":        {"a file in PEM", nil},
	"predicate":       {"a jq program", nil},
	"prefix":          {"1 to 64 printable ASCII characters without spaces, quotes or * ? [ ] \\", regexp.MustCompile(`^[!#-&(-)+->@-Z^-~]{1,64}$`).MatchString},
	"preset":          {"a name that vitrine presets lists, or a file with a slash in its name or ending in .yaml", isPreset},
	"proxies":         {"networks such as 10.0.0.0/8 (not 10.1.0.0/8), addresses, and unix for connections over a unix socket", isProxy},
	"public address":  {"an address as HOST:PORT or :PORT, with a number as port, or unix:PATH of at most 107 bytes", isPublicAddress},
	"redis":           {"embedded:, embedded:PORT or embedded:127.0.0.1:PORT (loopback alone), redis://HOST[:PORT][/DB], rediss:// or unix://PATH", isRedis},
	"target's name":   {"1 to 40 of a-z, 0-9, - and _", regexp.MustCompile(`^[a-z0-9_-]{1,40}$`).MatchString},
	"target's preset": {strings.Join(targetPresets, ", "), func(name string) bool { return slices.Contains(targetPresets, name) }},
	"target's URL":    {"http(s)://HOST[:PORT][/PATH] without a user", isTargetURL},
	"token":           {"8 to 512 printable ASCII characters without spaces", regexp.MustCompile(`^[!-~]{8,512}$`).MatchString},
	"upstream":        {"sample:, file:DIR, or http(s)://HOST[:PORT][/BASE]", regexp.MustCompile(`^(sample:$|file:|https?://)`).MatchString},
}

// isAddress allows the addresses of net.Listen with a numeric port.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	n, no := strconv.ParseUint(port, 10, 16)
	return err == nil && no == nil && (n > 0 || port == "0") && !strings.ContainsAny(text, " \t/@")
}

// isPublicAddress also allows a unix socket, whose path has a limit of 107 bytes on Linux, the highest
// of any system.
func isPublicAddress(text string) bool {
	path, ok := strings.CutPrefix(text, "unix:")
	return ok && path != "" && len(path) <= 107 || !ok && isAddress(text)
}

func isFolder(dir string) bool {
	_, err := os.ReadDir(dir)
	return err == nil
}

var isHeader = regexp.MustCompile(`^[!-~]([ -~]*[!-~])?$`).MatchString

var headerName = regexp.MustCompile(`^[\w-]+$`)

func isHeaderName(text string) bool {
	return headerName.MatchString(text) && !strings.EqualFold(text, "Forwarded")
}

func isHost(text string) bool {
	return !strings.ContainsAny(text, "/@* []") && (!strings.Contains(text, ":") || net.ParseIP(text) != nil)
}

// isOrigin allows * and origins in the form that browsers send.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return text == "*" || err == nil && u.Scheme != "" && u.Host != "" && u.Scheme+"://"+u.Host == text && text == strings.ToLower(text)
}

// isProxy allows networks, addresses and the word unix.
func isProxy(text string) bool {
	network, err := netip.ParsePrefix(text)
	address, no := netip.ParseAddr(text)
	return err == nil && network == network.Masked() || no == nil && address.Zone() == "" || text == "unix"
}

// isRedis allows the forms of a store's address. go-redis checks the rest when it is opened.
func isRedis(text string) bool {
	if port, ok := strings.CutPrefix(text, "embedded:"); ok {
		_, err := strconv.ParseUint(strings.TrimPrefix(port, "127.0.0.1:"), 10, 16)
		return port == "" || err == nil
	}
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "unix" && u.Path != "" || (u.Scheme == "redis" || u.Scheme == "rediss") && u.Hostname() != "")
}

func isTargetURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Fragment == ""
}

// splitList reads a comma-separated list.
func splitList(text string) (out []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
