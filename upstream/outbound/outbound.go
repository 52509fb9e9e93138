// Package outbound is the transport of every HTTP request that vitrine makes: to the CMS, to the
// endpoints that it notifies, and of its commands to another vitrine. Whatever the peer answers,
// reading it ends with the request's context.
package outbound

import (
	"net"
	"net/http"
	"time"
)

// New returns net/http's transport with the bounds of all requests; it keeps at most idle
// connections. Pass it to [Wrap]. With a DialContext of ours, net/http speaks HTTP/1.1 alone: over
// HTTP/2 it repeats requests by its own rules, and keeps a connection on which nothing comes.
func New(idle int) *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConns:        idle,
		MaxIdleConnsPerHost: idle,
		DisableKeepAlives:   idle == 0,
		IdleConnTimeout:     90 * time.Second,
		// No ResponseHeaderTimeout: the deadline of the context bounds that too.
		MaxResponseHeaderBytes: 64 << 10,
		// Its readers bound a body before and after decompression.
		DisableCompression: true,
	}
}

// Wrap adds to a RoundTripper what net/http leaves out:
//
//   - an upgraded connection (101) is closed at once: vitrine asks for no upgrade, and net/http
//     forgets the context of the request, so that the peer could stay silent for ever;
//   - a Location that is not a URL is dropped, since net/http quotes it in its error; the answer is
//     then just its status;
//   - there is no CloseIdleConnections: retryablehttp would close everybody's connections when one
//     request fails.
func Wrap(inner http.RoundTripper) http.RoundTripper { return transport{inner} }

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
