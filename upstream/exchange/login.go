package exchange

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Login gets the token for an Authorization header with a POST: OAuth's client credentials, or what
// a CMS makes of a name and a password. It logs in when a token is needed first, and when one is
// refused.
type Login struct {
	URL   *url.URL // nil: Path, relative to that of the CMS
	Path  string
	Type  string // the Content-Type of Body
	Body  []byte
	Token func(ctx context.Context, answer []byte) (string, error)

	mu     sync.Mutex
	header string   // of the present token; empty before
	sent   []string // the latest headers, which answers may repeat
}

// authorization returns the header's value.
func (l *Login) authorization(ctx context.Context, c *Client) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.header == "" {
		token, err := l.request(ctx, c)
		if err != nil {
			return "", &FaultError{Kind: FaultLogin, Text: "log in", Err: WithoutURL(err)}
		}
		if l.header = token; !strings.Contains(token, " ") {
			l.header = "Bearer " + token
		}
		const most = 3 // resources, each of which may still work with one
		l.sent = append(l.sent[max(0, len(l.sent)-most+1):], l.header)
	}
	return l.header, nil
}

func (l *Login) request(ctx context.Context, c *Client) (string, error) {
	const most = 1 << 20
	at := l.URL
	if at == nil {
		at = resolve(c.base, l.Path)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(l.Body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", l.Type)
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return "", err
	}
	defer drain(resp)
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		refused := &StatusError{Code: resp.StatusCode}
		refused.read(resp, false)
		return "", refused
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return "", err
	}
	token, err := l.Token(ctx, answer)
	if err == nil && (token == "" || !isHeaderValue(token)) {
		err = &FaultError{Text: "want a token"}
	}
	return token, err
}

// tokens returns the headers that requests under way may have.
func (l *Login) tokens() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sent)
}

// refused drops the token that was sent, unless another request has renewed it.
func (l *Login) refused(sent string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.header == sent {
		l.header = ""
	}
}
