package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"vitrine/config"
	"vitrine/proxy/listen"
	"vitrine/upstream/shape"
)

// startup is the text that serve prints at a terminal: what is served, from where, and commands to
// try. It ends in a newline.
func (s *service) startup() string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	put := func(name, text string) { _, _ = fmt.Fprintf(table, "  %s\t%s\n", name, text) } // into a strings.Builder

	contents, redis := s.client.String(), s.store.Addr()
	if s.cfg.Upstream.URL.Reveal() == "sample:" {
		contents = "the bundled sample; set VITRINE_UPSTREAM_URL for a CMS"
	}
	if s.local != nil {
		redis = "inside this process at " + redis + "; set VITRINE_REDIS_URL to share one"
	}
	_, _ = fmt.Fprintf(table, "vitrine serves %s\n\n", contents)
	for _, r := range shape.Resources() {
		target := r.Route()
		if r.Sortable() {
			target += "?ordering=-redirect_link_fr"
		}
		put(string(r), s.curl(target))
	}
	_, _ = fmt.Fprintln(table)
	cli := redisCLI(s.cfg.Redis.URL.Reveal(), s.store.Addr())
	put("purge", cli+" DEL "+s.cfg.Redis.Prefix+string(shape.Banners))
	put("inspect", cli+" HGETALL "+s.cfg.Redis.Prefix+string(shape.Banners))
	put("redis", redis)
	if s.operator != nil {
		page := urlOf(s.cfg.Admin.Listen, s.operator) + "/"
		if s.cfg.Admin.Token.Reveal() != "" {
			page += " (any user; the password is the token)"
		}
		put("page", page)
	}
	_, _ = fmt.Fprintln(table)
	_ = table.Flush() // into a strings.Builder
	return out.String()
}

// curl is a command that requests target at the public address.
func (s *service) curl(target string) string {
	scheme, options := "http", ""
	if s.certificate != nil {
		scheme, options = "https", "-k " // the certificate is for the public host name
	}
	base := scheme + strings.TrimPrefix(urlOf(s.cfg.Listen, s.public), "http")
	if path, ok := listen.SocketPath(s.cfg.Listen); ok {
		base, options = scheme+"://localhost", options+"--unix-socket "+path+" "
	}
	if strings.Contains(target, "?") {
		return "curl " + options + "'" + base + target + "'"
	}
	return "curl " + options + base + target
}

// redisCLI is the redis-cli command for the store that text names, at address. The operator adds
// the password with -a or --askpass.
func redisCLI(text, address string) string {
	u, err := url.Parse(text)
	if err != nil || strings.HasPrefix(text, "embedded:") {
		u = &url.URL{}
	}
	words := []string{"redis-cli"}
	query := u.Query()
	if query.Has("master_name") {
		return "redis-cli -h MASTER" // the Sentinels know which one it is
	}
	if u.Scheme == "unix" {
		words = append(words, "-s", u.Path)
	} else if host, port, err := net.SplitHostPort(strings.Split(address, ",")[0]); err == nil {
		if host != "127.0.0.1" && host != "localhost" {
			words = append(words, "-h", host)
		}
		words = append(words, "-p", port)
	}
	if u.Scheme == "rediss" {
		words = append(words, "--tls")
	}
	if query.Has("addr") {
		words = append(words, "-c")
	}
	if db := strings.Trim(u.Path, "/"); u.Scheme != "unix" && db != "" && db != "0" {
		words = append(words, "-n", db)
	} else if db := query.Get("db"); db != "" && db != "0" {
		words = append(words, "-n", db)
	}
	if name := u.User.Username(); name != "" {
		words = append(words, "--user", name)
	}
	if (config.NewURL(text)).Hides() {
		words = append(words, "--askpass")
	}
	return strings.Join(words, " ")
}

// cannotListen explains err with the setting called key, whose value is the address after scheme.
func cannotListen(key, scheme, address string, err error) error {
	s, _ := config.Lookup(key)
	problem, other := "cannot be listened on: "+err.Error(), nextAddress(address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		problem = "is in use by another process"
	case errors.Is(err, syscall.EACCES):
		problem = "needs privileges that this process does not have"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		problem, other = "is not an address of this machine", s.Default
	}
	return fmt.Errorf("%s: %s %s; set %s or --%s, e.g. --%s %s", s.Env, address, problem, s.Env, s.Flag, s.Flag, scheme+strings.TrimPrefix(other, scheme))
}

// nextAddress is an address to try instead: the next port, above the privileged ones.
func nextAddress(address string) string {
	if path, ok := listen.SocketPath(address); ok {
		return "unix:" + strings.TrimSuffix(path, ".sock") + "-2.sock"
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	n, err := strconv.Atoi(port)
	if err != nil || n >= 65535 {
		return net.JoinHostPort(host, "0")
	}
	if n < 1024 {
		n += 8000
	}
	return net.JoinHostPort(host, strconv.Itoa(n+1))
}

// baseURL is the URL of a listener for a client on this machine.
func baseURL(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	if port == "0" {
		return "", errors.New("a port chosen at start-up is unknown here")
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// urlOf is the URL of l for a client on this machine: with the configured host and the actual port.
func urlOf(configured string, l net.Listener) string {
	host, _, _ := net.SplitHostPort(configured)
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil { // a unix socket
		return l.Addr().String()
	}
	base, _ := baseURL(net.JoinHostPort(host, port))
	return base
}
