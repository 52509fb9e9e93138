package upstream

import (
	"errors"
	"strings"

	"vitrine/upstream/exchange"
	"vitrine/upstream/shape"
)

// hiddenError is an error whose text repeats a secret.
type hiddenError struct {
	error
	text string
}

func (e hiddenError) Error() string { return e.text }

func (e hiddenError) Unwrap() error { return e.error }

// hide removes from an error what the CMS repeats of the secrets that it was sent, as in a link.
func (c *Client) hide(err error) error {
	if refused, ok := errors.AsType[*shape.RefusedError](err); ok {
		refused.Path, refused.Got = c.redact(refused.Path), c.redact(refused.Got)
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		status.Said, status.Name = c.redact(status.Said), c.redact(status.Name)
	}
	if text := c.redact(err.Error()); text != err.Error() {
		return hiddenError{err, text}
	}
	return err
}

// redact masks secrets, also one that is cut off by an ellipsis, ours or that of jq.
func (c *Client) redact(text string) string {
	const shortest = 4
	text = string(exchange.Redact([]byte(text), c.secrets))
	for _, cut := range []string{"…", " ..."} {
		for _, secret := range c.secrets {
			for n := len(secret) - 1; n >= shortest && strings.Contains(text, cut); n-- {
				text = strings.ReplaceAll(text, secret[:n]+cut, "********"+cut)
			}
		}
	}
	return text
}
