package upstream

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"vitrine/upstream/exchange"
)

func TestCodeAndFromCodeAreInverse(t *testing.T) {
	for _, sentinel := range []error{ErrUnreachable, ErrTimeout, ErrAnswer} {
		code := Code(fmt.Errorf("at noon: %w", &exchange.Error{Op: "GET x", Kind: sentinel, Err: errors.New("y")}))
		back := FromCode(code)
		if code == "" || !errors.Is(back, sentinel) || Code(back) != code {
			t.Errorf("%v: code %q, back %v", sentinel, code, back)
		}
	}
	if got := Code(errors.New("other")); got != "" {
		t.Errorf("code of another error: %q", got)
	}
	if got := Code(nil); got != "" {
		t.Errorf("code of no error: %q", got)
	}
	if got := FromCode("overgrown"); !errors.Is(got, ErrUnreachable) {
		t.Errorf("an unknown code: %v", got)
	}
}

func TestRetryAfterIsFoundInAnyDepth(t *testing.T) {
	err := fmt.Errorf("again: %w", &exchange.Error{Kind: ErrAnswer, Err: &StatusError{Code: 429, RetryAfter: time.Minute}})
	if got := exchange.RetryAfter(err); got != time.Minute {
		t.Errorf("got %v", got)
	}
	if got := exchange.RetryAfter(errors.New("other")); got != 0 {
		t.Errorf("of another error: %v", got)
	}
}
