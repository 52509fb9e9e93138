package main

import (
	"fmt"
	"net"
	"net/url"
	"strings"
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

	_, _ = fmt.Fprintf(table, "vitrine serves %s\n\n", s.contents())
	put("catalogue", s.curl(routes[shape.Catalogue]))
	put("rules", s.curl(routes[shape.Rules]))
	put("banners", s.curl(routes[shape.Banners]+"?ordering=-redirect_link_fr"))
	_, _ = fmt.Fprintln(table)
	cli := redisCLI(s.cfg.Redis.URL.Reveal(), s.store.Addr())
	put("purge", cli+" DEL "+s.cfg.Redis.Prefix+string(shape.Banners))
	put("inspect", cli+" HGETALL "+s.cfg.Redis.Prefix+string(shape.Banners))
	put("redis", s.redis())
	if s.operator != nil {
		put("operator", s.operatorCurl())
	}
	_, _ = fmt.Fprintln(table)
	_ = table.Flush() // into a strings.Builder
	return out.String()
}

// operatorCurl is a command that requests the status. The operator sets the token in the
// environment.
func (s *service) operatorCurl() string {
	words := "curl "
	if s.cfg.Admin.Token.Reveal() != "" {
		words += `-H "Authorization: Bearer $VITRINE_ADMIN_TOKEN" `
	}
	return words + urlOf(s.cfg.Admin.Listen, s.operator) + "/api/status"
}

// contents names the upstream.
func (s *service) contents() string {
	if s.cfg.Upstream.URL == "sample:" {
		return "the bundled sample; set VITRINE_UPSTREAM_URL for a CMS"
	}
	return s.client.String()
}

// redis names the store.
func (s *service) redis() string {
	if s.local != nil {
		return "inside this process at " + s.store.Addr() + "; set VITRINE_REDIS_URL to share one"
	}
	return s.store.Addr()
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
