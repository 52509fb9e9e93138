package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// What several settings allow.
const (
	anAddress      = "an address as HOST:PORT or :PORT"
	aPublicAddress = "an address as HOST:PORT or :PORT, or unix:PATH"
	aSecretFile    = "a file that can be read and is not empty"
	aPEMFile       = "a file in PEM"
	aPath          = "a path without host, query or .. that is relative to the upstream URL"
)

// checkAddress allows what net.Listen allows, with a number for the port.
func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		var address *net.AddrError
		if errors.As(err, &address) {
			return errors.New(address.Err)
		}
		return err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("the port is a number from 0 to 65535")
	} else if n == 0 && port != "0" {
		return errUnsaid
	}
	if strings.ContainsAny(text, " \t/@") {
		return errUnsaid
	}
	return nil
}

// longestSocket is how many bytes the path of a unix socket may have. It is
// Linux's limit, the highest there is.
const longestSocket = 107

// checkPublicAddress allows a unix socket as well.
func checkPublicAddress(text string) error {
	path, ok := strings.CutPrefix(text, "unix:")
	switch {
	case !ok:
		return checkAddress(text)
	case path == "":
		return errors.New("the socket's path is missing")
	case len(path) > longestSocket:
		return fmt.Errorf("the socket's path has %d bytes, and no more than %d are possible", len(path), longestSocket)
	}
	return nil
}

// checkUpstream allows the three kinds of source, and several of the last.
func checkUpstream(text string) error {
	if text == "sample:" {
		return nil
	}
	if dir, ok := strings.CutPrefix(text, "file:"); ok {
		return checkFolder(dir)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		// The error of url.Parse repeats the address, which may hold a password.
		return errors.New("not an address")
	case u.Scheme != "http" && u.Scheme != "https":
		return errUnsaid
	case u.Hostname() == "":
		return errors.New("the host is missing")
	case u.User != nil:
		return errors.New("user and password belong in VITRINE_UPSTREAM_AUTHORIZATION")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("a query or fragment cannot be part of it")
	}
	return nil
}

// checkFolder allows a folder that can be read.
func checkFolder(dir string) error {
	if dir == "" {
		return errors.New("the folder's name is missing")
	}
	if _, err := os.ReadDir(dir); err != nil {
		return cause(err)
	}
	return nil
}

// cause strips what the message around it says already.
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// checkHeader allows what may stand in a header.
func checkHeader(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return errors.New("it has a line break or another character that no header may hold")
	}
	if strings.TrimSpace(text) != text {
		return errors.New("it begins or ends with a space")
	}
	return nil
}

// checkPath allows what can follow the CMS's URL without leaving it.
func checkPath(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "", u.Host != "", u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return errUnsaid
	case slices.Contains(strings.Split(u.Path, "/"), ".."):
		return errUnsaid
	}
	return nil
}

// checkRedis allows the forms of a store's address. What go-redis makes of
// the rest is for the one who opens it to say.
func checkRedis(text string) error {
	if address, ok := strings.CutPrefix(text, "embedded:"); ok {
		if address == "" {
			return nil
		}
		return checkAddress(address)
	}
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("not an address")
	}
	switch u.Scheme {
	case "redis", "rediss":
		if u.Hostname() == "" {
			return errors.New("the host is missing")
		}
	case "unix":
		if u.Path == "" {
			return errors.New("the socket's path is missing")
		}
	default:
		return errUnsaid
	}
	return nil
}

// checkPrefix allows what redis-cli and SCAN's patterns take as it is.
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
			return fmt.Errorf("%s is an address and not a network, which would be %s", item, network.Masked())
		case err != nil:
			if _, err := netip.ParseAddr(item); err != nil || strings.Contains(item, "%") {
				return fmt.Errorf("%q is no network", item)
			}
		}
	}
	return nil
}

// checkClientHeader allows the name of a field that is a list of addresses.
func checkClientHeader(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) {
		return errUnsaid
	}
	if strings.EqualFold(text, "Forwarded") {
		return errors.New("that field has a form of its own, which is not read; let the proxy send X-Forwarded-For")
	}
	return nil
}

// checkOrigins allows * alone, or origins as browsers send them.
func checkOrigins(text string) error {
	origins := splitList(text)
	if len(origins) > 1 && slices.Contains(origins, "*") {
		return errors.New("* stands alone")
	}
	for _, origin := range origins {
		if origin == "*" {
			continue
		}
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin || origin != strings.ToLower(origin) {
			return fmt.Errorf("%q is no origin: it is a scheme and a host in lower case, with no path and no slash at the end", origin)
		}
	}
	return nil
}

// incomplete finds the settings that are of no use without another.
func (p *parsing) incomplete() []error {
	cert, key := p.given["tls.cert_file"], p.given["tls.key_file"]
	switch {
	case cert.Text != "" && key.Text == "":
		return []error{mistake(cert, "want the key as well, in VITRINE_TLS_KEY_FILE")}
	case cert.Text == "" && key.Text != "":
		return []error{mistake(key, "want the certificate as well, in VITRINE_TLS_CERT_FILE")}
	}
	return nil
}

// collisions finds the settings that cannot both have what they have.
func (p *parsing) collisions() []error {
	c := &p.config
	type listener struct{ key, address string }
	listeners := []listener{{"listen", c.Listen}, {"admin.listen", c.Admin.Listen}}
	if address, ok := strings.CutPrefix(c.Redis.URL.Reveal(), "embedded:"); ok {
		listeners = append(listeners, listener{"redis.url", address})
	}
	var errs []error
	for i, a := range listeners {
		for _, b := range listeners[:i] {
			if overlap(a.address, b.address) {
				errs = append(errs, mistake(p.given[a.key], fmt.Sprintf(
					"want an address of its own, got %q, which is taken by %s (%s)",
					a.address, p.given[b.key].Origin.Name, p.given[b.key].Origin.place())))
			}
		}
	}
	return errs
}

// overlap reports whether two addresses cannot be listened on by one process.
func overlap(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || everywhere(hostA) || everywhere(hostB)
}

func everywhere(host string) bool {
	if host == "" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsUnspecified()
}
