package service

import (
	"fmt"
	"strings"
	"text/tabwriter"

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
	put("purge", redisCLI(s.redisURL, "DEL", s.store.Prefix()+string(shape.Banners)))
	put("inspect", redisCLI(s.redisURL, "HGETALL", s.store.Prefix()+string(shape.Banners)))
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
