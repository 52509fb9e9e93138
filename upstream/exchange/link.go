package exchange

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const maxRedirects = 5

// Follow returns the query of a link in an answer to want, which is all that pages of one list
// differ by. Django REST Framework makes links from the Host header and the scheme that reach it,
// WordPress from its settings; behind a proxy both may have another scheme, port or prefix than the
// base URL, and still mean it. So the link is never asked at its own address, and a link to a host of
// another name, or to another list, is refused. In a folder every link leads to the next file.
func (c *Client) Follow(want Request, raw string, hosts []string) (query string, err error) {
	if c.files != nil {
		return "page=" + strconv.Itoa(want.Page+1), nil
	}
	own := c.target(want)
	ref, err := url.Parse(raw)
	if err != nil {
		return "", errors.New("something that is not a URL")
	}
	link := own.ResolveReference(ref)
	known := func(host string) bool { return strings.EqualFold(host, link.Hostname()) }
	switch {
	case link.Scheme != "http" && link.Scheme != "https":
		return "", errors.New("a link of another scheme")
	case link.User != nil:
		return "", errors.New("a link with a user in it")
	case !known(own.Hostname()) && !slices.ContainsFunc(hosts, known):
		return "", errors.New("a link to another host, " + clip(link.Host) +
			" (if the CMS calls itself so, name it in paging.hosts)")
	case !sameList(own.Path, link.Path):
		return "", errors.New("a link to another path, " + clip(link.Path))
	}
	return link.RawQuery, nil
}

// sameList reports whether two paths are the same but for a prefix that a proxy adds or takes away,
// and for the slash at the end.
func sameList(a, b string) bool {
	a, b = strings.Trim(a, "/"), strings.Trim(b, "/")
	return a == b || strings.HasSuffix("/"+a, "/"+b) && b != "" || strings.HasSuffix("/"+b, "/"+a) && a != ""
}

// checkRedirect lets a redirect go on to the same scheme, host and port, as an APPEND_SLASH does, and
// from http to https on the default ports of the same host name: the certificate then proves the host
// that the credentials are for. Everything else is refused, so no header, be it Authorization or one
// of Options.Headers, ever reaches another host.
func checkRedirect(req *http.Request, via []*http.Request) error {
	code := req.Response.StatusCode
	from := via[len(via)-1].URL
	switch {
	case len(via) > maxRedirects:
		return &RedirectError{Code: code, Reason: fmt.Sprintf("more than %d redirects", maxRedirects)}
	case req.URL.User != nil:
		return &RedirectError{Code: code, Reason: "redirected to a URL with a user in it"}
	case !sameOrigin(from, req.URL) && !isUpgrade(from, req.URL):
		return &RedirectError{Code: code, Reason: "redirected to another host, " +
			clip((&url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host}).String())}
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

// bareLocation drops a Location that is not a URL, which net/http would quote in its error: without
// it the answer is just its status.
type bareLocation struct{ http.RoundTripper }

func (b bareLocation) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if location := resp.Header.Get("Location"); location != "" {
		if _, err := req.URL.Parse(location); err != nil {
			resp.Header.Del("Location")
		}
	}
	return resp, nil
}

// CloseIdleConnections is what http.Client looks for.
func (b bareLocation) CloseIdleConnections() {
	if t, ok := b.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}
