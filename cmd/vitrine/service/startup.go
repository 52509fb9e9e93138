package service

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"vitrine/proxy/listen"
	"vitrine/upstream/shape"
)

// startup is the text that serve prints at its start: what is served, from where, and commands to
// try. It ends in an empty line.
func (s *service) startup() string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	put := func(format string, args ...any) { _, _ = fmt.Fprintf(table, format+"\n", args...) } // into a strings.Builder
	contents, redis := s.client.String(), s.store.Addr()
	if s.cfg.Upstream.URL.Reveal() == "sample:" {
		contents = "the bundled sample; set VITRINE_UPSTREAM_URL for a CMS"
	}
	if s.local != nil {
		redis = "inside this process at " + redis + "; set VITRINE_REDIS_URL to share one"
	}
	put("vitrine serves %s\n", contents)
	for _, r := range shape.Resources() {
		put("  %s\t%s", r, s.curl(r.Route()))
	}
	put("\n  purge\t%s", redisCLI(s.redisURL, "DEL", s.store.Prefix()+string(shape.Banners)))
	put("  redis\t%s", redis)
	if s.operator != nil {
		put("  page\t%s/", urlOf(s.cfg.Admin.Listen, s.operator))
	}
	put("")
	_ = table.Flush() // into a strings.Builder
	return out.String()
}

// curl is a command that requests a path at the public address.
func (s *service) curl(path string) string {
	base, options := urlOf(s.cfg.Listen, s.public), ""
	if socket, ok := listen.SocketPath(s.cfg.Listen); ok {
		base, options = "http://localhost", "--unix-socket "+socket+" "
	}
	if s.certificate != nil { // which is for the public host name
		base, options = "https"+strings.TrimPrefix(base, "http"), options+"-k "
	}
	return "curl " + options + base + path
}
