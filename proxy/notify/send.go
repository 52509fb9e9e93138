package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"vitrine/config/source"
	"vitrine/upstream/plain"
	"vitrine/upstream/retryafter"
)

const (
	// sendTime bounds one request, with its answer.
	sendTime = 5 * time.Second
	// mostRead is what is read of an answer, for its error.
	mostRead = 4 << 10
	// mostSaid is how much of that is kept.
	mostSaid = 200
	// longestAfter bounds a Retry-After.
	longestAfter = 10 * time.Minute
)

// A Sender sends events to one target.
type Sender struct {
	target source.Target
	client *http.Client
	hide   *strings.Replacer
}

// A sendError is why a target was not told.
type sendError struct {
	reason string
	after  time.Duration // of Retry-After; 0 if there was none
}

// Error returns the reason, without secrets.
func (e *sendError) Error() string { return e.reason }

// NewSender makes the sender of a target, which is complete: see package config.
func NewSender(t source.Target) *Sender {
	secrets := slices.DeleteFunc(slices.Concat(t.Secrets, []string{t.Token, t.Secret}), func(s string) bool { return s == "" })
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // one can begin with another
	var hidden []string
	for _, secret := range secrets {
		hidden = append(hidden, secret, masked, url.QueryEscape(secret), masked, url.PathEscape(secret), masked, quoted(secret), masked)
	}
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: sendTime}).DialContext,
		TLSHandshakeTimeout:    sendTime,
		MaxIdleConns:           1,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
	client := &http.Client{Transport: transport, Timeout: sendTime, CheckRedirect: stay}
	return &Sender{target: t, hide: strings.NewReplacer(hidden...), client: client}
}

const masked = "********"

// stay follows a redirect on the same server alone, and with the same method: elsewhere are neither
// the credentials' business nor this program's.
func stay(r *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > 3 || r.Method != first.Method || r.URL.Scheme != first.URL.Scheme || r.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// Send tells the target, by one request. Its error contains no secret.
func (s *Sender) Send(ctx context.Context, e Event) error {
	c, err := callOf(&s.target, e)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, c.method, c.url, bytes.NewReader(c.body))
	if err != nil {
		return s.failure(nil, errors.New("not a URL"))
	}
	// Not sent: it has the transport repeat a request on a new connection if the target had closed the
	// one kept. It may be told twice.
	r.Header["Idempotency-Key"] = nil
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	resp, err := s.client.Do(r)
	if resp != nil {
		defer resp.Body.Close() //nolint:errcheck // what is left is not wanted
	}
	if err != nil || resp.StatusCode < 200 || resp.StatusCode > 299 {
		return s.failure(resp, err)
	}
	_, _ = io.CopyN(io.Discard, resp.Body, mostRead) // so that the connection can be used again
	return nil
}

// failure says what went wrong, with the beginning of an answer, and without the path of the URL,
// which may be a secret.
func (s *Sender) failure(resp *http.Response, err error) error {
	failed := &sendError{}
	var reason string
	switch wrapped := (*url.Error)(nil); {
	case errors.As(err, &wrapped):
		reason = wrapped.Err.Error()
	case err != nil:
		reason = err.Error()
	case resp.StatusCode < 400 && resp.Header.Get("Location") != "":
		reason = fmt.Sprintf("status %d, a redirect that is not followed", resp.StatusCode)
	default:
		failed.after = retryafter.Of(resp, longestAfter)
		said, _ := io.ReadAll(io.LimitReader(resp.Body, mostRead)) // as much as there is
		reason = strings.TrimSpace(fmt.Sprintf("status %d %s", resp.StatusCode, said))
	}
	failed.reason = s.target.Method + " " + Host(s.target) + ": " + plain.Clip(s.hide.Replace(reason), mostSaid)
	return failed
}

// Host is the part of a target's URL that can be shown: https://hooks.example.org.
func Host(t source.Target) string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return masked
	}
	return u.Scheme + "://" + u.Host
}

// Dump is the request that would be sent, with its secrets masked.
func (s *Sender) Dump(e Event) (string, error) {
	c, err := callOf(&s.target, e)
	if err != nil {
		return "", err
	}
	out := c.method + " " + c.url + "\n"
	for _, name := range slices.Sorted(maps.Keys(c.headers)) {
		out += name + ": " + c.headers[name] + "\n"
	}
	return s.hide.Replace(out + "\n" + string(c.body)), nil
}

// Close closes idle connections.
func (s *Sender) Close() { s.client.CloseIdleConnections() }
