package exchange

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

const maxRedirects = 5

// sameList reports whether two paths are the same except for a prefix that a proxy adds or removes,
// and for a trailing slash.
func sameList(a, b string) bool {
	a, b = strings.Trim(a, "/"), strings.Trim(b, "/")
	return a == b || strings.HasSuffix("/"+a, "/"+b) && b != "" || strings.HasSuffix("/"+b, "/"+a) && a != ""
}

// checkRedirect allows a redirect to the same scheme, host and port, as APPEND_SLASH makes, and
// from http to https on the default ports of the same host name, where the certificate proves the
// host. Any other is refused, so no header, neither Authorization nor one of Options.Headers,
// reaches another host.
func checkRedirect(req *http.Request, via []*http.Request) error {
	refuse := func(format string, args ...any) error {
		return &FaultError{Kind: FaultRedirect, Text: fmt.Sprintf("status %d: ", req.Response.StatusCode) + fmt.Sprintf(format, args...)}
	}
	from := via[len(via)-1].URL
	switch {
	case len(via) > maxRedirects:
		return refuse("more than %d redirects", maxRedirects)
	case req.Method != via[0].Method: // as net/http does with a POST on 301, 302 and 303
		return refuse("redirected from %s to %s", via[0].Method, req.Method)
	case req.URL.User != nil:
		return refuse("redirected to a URL with a user in it")
	case !sameOrigin(from, req.URL) && !isUpgrade(from, req.URL):
		return refuse("redirected to another host, scheme or port")
	}
	return nil
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func isUpgrade(from, to *url.URL) bool {
	return from.Scheme == "http" && to.Scheme == "https" && port(from) == "80" && port(to) == "443" &&
		strings.EqualFold(from.Hostname(), to.Hostname())
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}
