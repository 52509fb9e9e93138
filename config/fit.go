package config

import (
	"net"
	"strings"
)

// incomplete finds settings that need another one that is missing.
func incomplete(given values) []error {
	cert, key := given["tls.cert_file"], given["tls.key_file"]
	switch {
	case cert.text != "" && key.text == "":
		return []error{mistake(cert.origin, "want the key as well, in VITRINE_TLS_KEY_FILE")}
	case cert.text == "" && key.text != "":
		return []error{mistake(key.origin, "want the certificate as well, in VITRINE_TLS_CERT_FILE")}
	}
	return nil
}

// collisions finds settings whose values exclude each other.
func collisions(c *Config, given values) []error {
	type listener struct{ key, address string }
	listeners := []listener{{"listen", c.Listen}, {"admin.listen", c.Admin.Listen}}
	if address, ok := strings.CutPrefix(c.Redis.URL.Reveal(), "embedded:"); ok {
		_, address = splitPassword(address)
		listeners = append(listeners, listener{"redis.url", address})
	}
	var errs []error
	for i, a := range listeners {
		for _, b := range listeners[:i] {
			if overlap(a.address, b.address) {
				errs = append(errs, mistake(given[a.key].origin, "want another address, got %q, which is used by %s (%s)",
					a.address, given[b.key].name, given[b.key].place()))
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

// exposed finds an operator's address that is not loopback and has no token. An invalid token is
// reported elsewhere.
func exposed(c *Config, given values) []error {
	if a := c.Admin; a.Listen == "" || a.Token.Reveal() != "" || a.IsLoopback() || given["admin.token_file"].text != "" {
		return nil
	}
	return []error{mistake(given["admin.listen"].origin,
		"want a token in VITRINE_ADMIN_TOKEN, or a loopback address such as 127.0.0.1:9090; got %q and no token", c.Admin.Listen)}
}

// IsLoopback reports whether only this machine reaches the operator's address.
func (a Admin) IsLoopback() bool { return isLoopback(a.Listen) }

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
