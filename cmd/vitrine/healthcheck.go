package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"vitrine/config"
	"vitrine/proxy/listen"
	"vitrine/upstream/shape"
)

// healthcheckCommand asks a running vitrine whether it is ready. It is all
// that an image without a shell has to ask with.
type healthcheckCommand struct {
	settingsFlags
	URL     string        `name:"url" placeholder:"URL" help:"Ask this address instead of the configured vitrine; 200 is well."`
	Timeout time.Duration `default:"2s" help:"How long to wait for all answers together (${default})."`
}

// Help shows what to type.
func (healthcheckCommand) Help() string {
	return "Asks /readyz at the operator's address, or, where that is off, each route at the public one. " +
		"Exit code 0: ready; 1: not.\n\n" + examples(
		"vitrine healthcheck",
		"vitrine healthcheck --url http://127.0.0.1:8000/healthz",
	)
}

// Run asks and compares.
func (c *healthcheckCommand) Run(ctx context.Context, p program) error {
	urls := []string{c.URL}
	// A proxy from the environment is for the CMS, not for this machine.
	transport := &http.Transport{DisableKeepAlives: true}
	if c.URL == "" {
		cfg, err := c.load(p)
		if err != nil {
			return err
		}
		if urls, err = readinessURLs(cfg); err != nil {
			return err
		}
		if cfg.Admin.Listen == "" {
			reachPublic(transport, cfg)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	for _, url := range urls {
		if err := isWell(ctx, transport, url); err != nil {
			return err
		}
	}
	return nil
}

// reachPublic lets a transport reach the public address of a vitrine on this
// machine, where that is a unix socket or has TLS.
func reachPublic(transport *http.Transport, cfg config.Config) {
	if path, ok := listen.SocketPath(cfg.Listen); ok {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	}
	// Whether it answers is asked here, at an address that the certificate is
	// not made out to; nothing secret is sent or believed.
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above
}

// readinessURLs are the addresses that all answer with 200 when it is ready.
func readinessURLs(cfg config.Config) ([]string, error) {
	if cfg.Admin.Listen != "" {
		base, err := baseURL(cfg.Admin.Listen)
		if err != nil {
			return nil, cfg.Refuse("admin.listen", err)
		}
		return []string{base + "/readyz"}, nil
	}
	base := "http://localhost" // over a unix socket any name does
	if _, ok := listen.SocketPath(cfg.Listen); !ok {
		var err error
		if base, err = baseURL(cfg.Listen); err != nil {
			return nil, cfg.Refuse("listen", err)
		}
	}
	if cfg.TLS.CertFile != "" {
		base = "https" + strings.TrimPrefix(base, "http")
	}
	var urls []string
	for _, r := range shape.Resources() {
		urls = append(urls, base+routes[r])
	}
	return urls, nil
}

// baseURL is where a client on this machine finds a listener.
func baseURL(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	if port == "0" {
		return "", errors.New("a port that is picked at start cannot be asked")
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// isWell asks for url and wants 200.
func isWell(ctx context.Context, transport *http.Transport, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return &usageError{fmt.Errorf("--url (flag): want an address, got %q", url)}
	}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 300))
	if err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	return fmt.Errorf("GET %s: status %d: %q", url, response.StatusCode, body)
}
