package upstream

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// target is the URL of a request.
func (s *httpSource) target(want request) *url.URL {
	u := resolve(s.base, want.path)
	switch {
	case want.query == "":
	case u.RawQuery == "":
		u.RawQuery = want.query
	default:
		u.RawQuery += "&" + want.query
	}
	return u
}

// follow takes of a link only its query, which is all that pages of one list
// differ by. Django REST Framework makes links from the Host header and the
// scheme that reach it, WordPress from its settings; behind a proxy both may
// have another scheme, port or prefix than the base URL, and still mean it. So
// the link is never asked at its own address, and a link to a host of another
// name, or to another list, is refused.
func (s *httpSource) follow(want request, raw string, hosts []string) (*url.URL, error) {
	own := s.target(want)
	ref, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("what is no URL")
	}
	link := own.ResolveReference(ref)
	known := func(host string) bool { return strings.EqualFold(host, link.Hostname()) }
	switch {
	case link.Scheme != "http" && link.Scheme != "https":
		return nil, errors.New("a link of another scheme")
	case link.User != nil:
		return nil, errors.New("a link with a user in it")
	case !known(own.Hostname()) && !slices.ContainsFunc(hosts, known):
		return nil, errors.New("a link to another host, " + clip(link.Host) +
			" (if the CMS calls itself so, name it in paging.hosts)")
	case !sameList(own.Path, link.Path):
		return nil, errors.New("a link to another path, " + clip(link.Path))
	}
	return link, nil
}

// sameList reports whether two paths are the same but for a prefix that a proxy
// adds or takes away, and for the slash at the end.
func sameList(a, b string) bool {
	a, b = strings.Trim(a, "/"), strings.Trim(b, "/")
	return a == b || strings.HasSuffix("/"+a, "/"+b) && b != "" || strings.HasSuffix("/"+b, "/"+a) && a != ""
}

// pathOnly is a path without its query.
func pathOnly(path string) string {
	before, _, _ := strings.Cut(path, "?")
	return before
}
