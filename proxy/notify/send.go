package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"vitrine/cache"
	"vitrine/config/source"
	"vitrine/upstream/guard"
	"vitrine/upstream/mapping"
	"vitrine/upstream/outbound"
	"vitrine/upstream/retryafter"
	"vitrine/upstream/sanitize"
)

const (
	mostBody     = 1 << 20 // bytes of a request
	mostRead     = 4 << 10 // bytes of a response
	mostShown    = 200     // characters of those, in an error
	longestAfter = 10 * time.Minute
)

// Event is the input of a body's program: see docs/notify.md.
type Event struct {
	// ID is the same when the event is sent again.
	ID       string    `json:"id"`
	Event    string    `json:"event"`
	Resource string    `json:"resource"`
	Seq      int64     `json:"seq"` // of the document in Redis; grows until Redis loses its data
	ETag     string    `json:"etag"`
	At       time.Time `json:"at"`
	// Reason is why fetches fail, or a document is held back, or no longer is.
	Reason string `json:"reason"`
	// Until is when a hold ends, Command accepts the document before that, and Findings are what it
	// lacks.
	Until    *time.Time     `json:"until,omitempty"`
	Command  string         `json:"command,omitempty"`
	Findings guard.Findings `json:"findings,omitempty"`
}

// A Sender sends events to one endpoint, each on a connection of its own: one that is kept can have
// been closed by then, and a request that is repeated can notify twice.
type Sender struct {
	target  source.Target
	program *mapping.Program // makes the body; nil for none
	client  http.Client
}

// A sendError is why an event was not sent, without secrets.
type sendError struct {
	error
	after time.Duration // of Retry-After; 0 if there was none
}

// NewSender makes the sender of a target, which is complete: see package config.
func NewSender(t source.Target) *Sender {
	s := &Sender{target: t, client: http.Client{
		Transport:     outbound.Wrap(outbound.New(0)),
		Timeout:       cache.NotifyTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if t.Body != "" {
		s.program, _ = mapping.Compile("", "body", t.Body) // as the configuration did
	}
	return s
}

// request is the request that notifies of an event, with its body and how its URL is shown.
func (s *Sender) request(ctx context.Context, e Event) (r *http.Request, body []byte, shown string, err error) {
	if s.program != nil {
		text, _ := json.Marshal(e) // has no value that JSON lacks
		input, _ := mapping.Decode("event", text)
		watched, stop := mapping.Watch(ctx, len(text))
		defer stop()
		made, err := s.program.One(watched, "event", input)
		if err != nil {
			return nil, nil, "", err
		}
		if text, ok := made.(string); ok {
			body = []byte(text)
		} else if body, err = mapping.Append(nil, "body", made, mapping.Limits{Bytes: mostBody}); err != nil {
			return nil, nil, "", err
		}
	}
	t, signature := &s.target, ""
	if secret := t.Secret.Reveal(); secret != "" {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		signature = hex.EncodeToString(mac.Sum(nil))
	}
	values := []string{
		"{resource}", e.Resource, "{event}", e.Event, "{id}", e.ID, "{seq}", strconv.FormatInt(e.Seq, 10), "{etag}", e.ETag,
		"{zone}", t.Zone, "{service}", t.Service, "{token}", t.Token.Reveal(), "{secret}", t.Secret.Reveal(), "{signature}", signature,
	}
	inHeader := strings.NewReplacer(values...)
	for i := 1; i < len(values); i += 2 {
		values[i] = url.QueryEscape(values[i])
	}
	inPath := strings.NewReplacer(values...)
	r, err = http.NewRequestWithContext(ctx, t.Method, t.URL.Reveal()+inPath.Replace(t.Path.Reveal()), bytes.NewReader(body))
	if err != nil {
		return nil, nil, "", errors.New("url and path together are not a URL")
	}
	r.Header.Set("User-Agent", "vitrine")
	for name, value := range t.Headers {
		if signature != "" || !strings.Contains(value, "{signature}") {
			r.Header.Set(name, inHeader.Replace(value))
		}
	}
	return r, body, t.URL.String() + inPath.Replace(t.Path.String()), nil
}

// Send notifies the endpoint of an event, by one request. Its error contains no secret.
func (s *Sender) Send(ctx context.Context, e Event) error {
	r, _, _, err := s.request(ctx, e)
	var resp *http.Response
	if err == nil {
		if resp, err = s.client.Do(r); err == nil {
			defer resp.Body.Close() //nolint:errcheck // what is left is not wanted
		}
	}
	var failed sendError
	switch wrapped := (*url.Error)(nil); {
	case errors.As(err, &wrapped):
		err = wrapped.Err // without the URL
	case err != nil:
	case resp.StatusCode/100 == 2:
		return nil
	case resp.StatusCode/100 == 3:
		err = fmt.Errorf("status %d, a redirect that is not followed", resp.StatusCode)
	default:
		failed.after = retryafter.Of(resp, longestAfter, retryafter.Field{})
		text, _ := io.ReadAll(io.LimitReader(resp.Body, mostRead)) // as much as there is
		err = errors.New(strings.TrimSpace(fmt.Sprintf("status %d %s", resp.StatusCode, text)))
	}
	failed.error = fmt.Errorf("%s %s: %s", s.target.Method, s.target.URL, sanitize.Clip(sanitize.Mask(err.Error(), s.target.Secrets...), mostShown))
	return &failed
}

// Dump is the request that would be sent, with its secrets masked.
func (s *Sender) Dump(ctx context.Context, e Event) (string, error) {
	r, body, shown, err := s.request(ctx, e)
	if err != nil {
		return "", err
	}
	var header strings.Builder
	_ = r.Header.Write(&header) // to memory
	return sanitize.Mask(fmt.Sprintf("%s %s\n%s\n%s", r.Method, shown, strings.ReplaceAll(header.String(), "\r\n", "\n"), body), s.target.Secrets...), nil
}
