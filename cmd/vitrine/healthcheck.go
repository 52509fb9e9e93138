package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	neturl "net/url"
	"strings"
	"syscall"
	"time"

	"vitrine/cmd/vitrine/service"
	"vitrine/config"
	"vitrine/proxy/listen"
	"vitrine/upstream/outbound"
	"vitrine/upstream/sanitize"
	"vitrine/upstream/shape"
)

// healthcheck checks whether a running vitrine is ready, in an image without a shell: each URL has to
// answer with 200.
func healthcheck(c *call, f *flag.FlagSet) action {
	url := f.String("url", "", "check this `URL` instead of the configured vitrine; 200 is healthy")
	timeout := f.Duration("timeout", 2*time.Second, "time limit for all requests together, a `DURATION`")
	return func(ctx context.Context) (any, error) {
		urls, transport := []string{*url}, outbound.New(0)
		if *url == "" {
			cfg, _, err := c.find("admin.", "listen", "tls.")
			if err != nil {
				return nil, err
			}
			if urls, err = readinessURLs(cfg); err != nil {
				return nil, err
			}
			if cfg.Admin.Listen == "" {
				reachPublic(transport, cfg)
			}
		}
		ctx, cancel := context.WithTimeout(ctx, *timeout)
		defer cancel()
		for _, one := range urls {
			if _, err := get(ctx, one, transport, config.Secret{}); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

// reachPublic lets a transport reach a public address that is a unix socket or has TLS.
func reachPublic(transport *http.Transport, cfg config.Config) {
	if path, ok := listen.SocketPath(cfg.Listen); ok {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	}
	// The address is not in the certificate; nothing secret is sent, and the response is not used.
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above
}

// readinessURLs are the URLs that all answer 200 when vitrine is ready.
func readinessURLs(cfg config.Config) ([]string, error) {
	if cfg.Admin.Listen != "" {
		base, err := service.BaseURL(cfg.Admin.Listen)
		if err != nil {
			return nil, cfg.Refuse("admin.listen", err)
		}
		return []string{base + "/readyz"}, nil
	}
	base := "http://localhost" // any name works over a unix socket
	if _, ok := listen.SocketPath(cfg.Listen); !ok {
		var err error
		if base, err = service.BaseURL(cfg.Listen); err != nil {
			return nil, cfg.Refuse("listen", err)
		}
	}
	if cfg.TLS.CertFile != "" {
		base = "https" + strings.TrimPrefix(base, "http")
	}
	var urls []string
	for _, r := range shape.Resources() {
		urls = append(urls, base+r.Route())
	}
	return urls, nil
}

// bodyLimit bounds what is read of a response, in bytes.
const bodyLimit = 4 << 20

// get requests url of a vitrine and wants 200. A proxy in the environment is for the CMS, and
// neither it nor the target of a redirect may see the token.
func get(ctx context.Context, url string, transport *http.Transport, token config.Secret) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody) //nolint:gosec // the operator names it
	if err != nil || request.URL.Host == "" {
		return nil, wrongUse("--url (flag): want an address such as http://127.0.0.1:9090, got %q", config.NewURL(url))
	}
	url = (&neturl.URL{Scheme: request.URL.Scheme, Host: request.URL.Host, Path: request.URL.Path}).String() // without secrets
	if token.Reveal() != "" {
		request.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	transport.Proxy = nil
	client := http.Client{Transport: outbound.Wrap(transport), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request) //nolint:gosec // see above
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("GET %s: nothing listens there: is vitrine running?", url)
	case err != nil:
		if wrapped, ok := errors.AsType[*neturl.Error](err); ok { // it has the URL
			err = wrapped.Err
		}
		return nil, fmt.Errorf("GET %s: %w", url, err)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, bodyLimit))
	err = cmp.Or(err, response.Body.Close())
	switch {
	case err != nil:
		return nil, fmt.Errorf("GET %s: %w", url, err)
	case response.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("GET %s: it requires a token: set VITRINE_ADMIN_TOKEN or VITRINE_ADMIN_TOKEN_FILE", url)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("GET %s: status %d: %s", url, response.StatusCode, sanitize.Text(strings.Join(strings.Fields(string(body)), " ")))
	}
	return body, nil
}
