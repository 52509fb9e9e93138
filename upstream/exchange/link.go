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
		return refuse("redirected to another host, %s", clip((&url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host}).String()))
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

// transport adds to a RoundTripper what net/http leaves out:
//
//   - an upgraded connection (101) is closed at once: vitrine asks for no upgrade, and net/http
//     forgets the context of the request, so that the peer could stay silent for ever;
//   - a Location that is not a URL is dropped, since net/http quotes it in its error; the answer is
//     then just its status;
//   - there is no CloseIdleConnections: retryablehttp would close everybody's connections when one
//     request fails.
type transport struct{ http.RoundTripper }

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close() // nothing of it is wanted
		resp.Body, resp.ContentLength = http.NoBody, 0
	}
	if location := resp.Header.Get("Location"); location != "" {
		if _, err := req.URL.Parse(location); err != nil {
			resp.Header.Del("Location")
		}
	}
	return resp, nil
}
