package upstream

import (
	"errors"

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
		refused.Path, refused.Got = c.cms.Redact(refused.Path), c.cms.Redact(refused.Got)
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		status.Said, status.Name = c.cms.Redact(status.Said), c.cms.Redact(status.Name)
	}
	if text := c.cms.Redact(err.Error()); text != err.Error() {
		return hiddenError{err, text}
	}
	return err
}
