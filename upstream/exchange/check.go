package exchange

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// reserved are the headers that only the client sets.
var reserved = []string{
	"Accept-Encoding", "Authorization", "Connection", "Content-Length", "Host",
	"If-Modified-Since", "If-None-Match", "If-Range", "Range", "Transfer-Encoding",
}

// ParseBase reads the base URL of a CMS. Its errors never repeat the URL, which may contain a
// password in the wrong place.
func ParseBase(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	switch {
	case u.User != nil:
		return nil, errors.New("a user or password is not allowed; use the upstream authorization setting (VITRINE_UPSTREAM_AUTHORIZATION)")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the scheme is missing or unknown")
	case u.Hostname() == "":
		return nil, fmt.Errorf("no host after %s://", u.Scheme)
	case u.RawQuery != "" || u.ForceQuery:
		return nil, errors.New("a query is not allowed; it belongs to the path of a resource")
	case strings.Contains(raw, "#"):
		return nil, errors.New("a fragment is not allowed")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return nil, fmt.Errorf("want a port from 1 to 65535, got %s", p)
		}
	}
	u.Host = strings.ToLower(u.Host)
	return u, nil
}

// CheckPath refuses paths that leave the base URL.
func CheckPath(p string) error {
	u, err := url.Parse(p)
	switch {
	case err != nil:
		return errors.New("not a path")
	case u.Scheme != "" || u.Host != "" || u.User != nil:
		return errors.New("want a path relative to the upstream URL, got a URL")
	case strings.Contains(p, "#"):
		return errors.New("a fragment is not allowed")
	case slices.Contains(strings.Split(u.Path, "/"), ".."):
		return errors.New("a path with .. would leave the upstream URL")
	}
	return nil
}

// CheckHeaders refuses headers that cannot be sent, or must not be set. It also returns the name.
func CheckHeaders(headers map[string]string) (name string, err error) {
	names := slices.Sorted(maps.Keys(headers))
	for i, name := range names {
		switch {
		case slices.ContainsFunc(names[:i], func(other string) bool { return strings.EqualFold(other, name) }):
			return name, errors.New("want each header once, whatever the case of its letters")
		case !token.MatchString(name):
			return name, fmt.Errorf("want the name of a header, got %q", name)
		case strings.EqualFold(name, "Authorization"):
			return name, errors.New("want upstream.authorization for this")
		case slices.ContainsFunc(reserved, func(r string) bool { return strings.EqualFold(r, name) }):
			return name, errors.New("want a header that the client does not set itself")
		case !isHeaderValue(headers[name]):
			return name, errors.New("want a value without control characters")
		}
	}
	return "", nil
}

// isHeaderValue reports whether s can be sent as one: no control characters but the tab.
func isHeaderValue(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// IsHeaderName reports whether s can be the name of a header.
func IsHeaderName(s string) bool { return token.MatchString(s) }

// token is that of RFC 9110, section 5.6.2.
var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
