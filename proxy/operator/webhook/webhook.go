// Package webhook purges softly when a CMS says that its content has changed.
//
// One call goes through it in this order:
//
//  1. a bearer token is checked before the body is read, or an HMAC-SHA256 over the body after it;
//  2. the programs select the resources that the call concerns;
//  3. these are purged, and the call is answered with 202, or with 503 if Redis did not purge all.
//
// A call that is repeated does no harm.
package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"vitrine/upstream/shape"
)

// Path is the path of the webhook at the operator's address.
const Path = "/hooks/content"

// Options are the settings of a [Hook]. All are required.
type Options struct {
	// Secret is the key of the HMAC, and the bearer token.
	Secret string
	// SignatureHeader holds the HMAC-SHA256 in hexadecimal, with or without sha256= before it, or
	// in base64.
	SignatureHeader string
	// Match selects the resources that a call concerns, by its body.
	Match func(ctx context.Context, body []byte) ([]shape.Resource, error)
	// Purge purges a resource softly.
	Purge func(ctx context.Context, r shape.Resource) error
	// Count receives the outcome of each call: accepted, unmatched, refused, unreadable or failed.
	Count func(outcome string)
	// Logger gets a line of each call.
	Logger *slog.Logger
}

const (
	maxBytes        = 1 << 20         // of a body (413 beyond)
	maxBodies       = 8               // in memory, of all connections
	placePatience   = time.Second     // for such a place: who is refused at once calls again at once
	defaultPatience = 5 * time.Second // for one call
)

// Hook is an http.Handler for calls.
type Hook struct {
	Options
	patience time.Duration
	unproven chan struct{} // a place for each of maxBodies that a signature is to prove
	proven   chan struct{} // likewise, with the token: strangers cannot take these

	refused atomic.Int64   // calls since the last log line about them
	notice  rate.Sometimes // logs that line
}

// New makes a hook.
func New(o Options) *Hook {
	return &Hook{
		Options: o, patience: defaultPatience, notice: rate.Sometimes{Interval: time.Minute},
		unproven: make(chan struct{}, maxBodies), proven: make(chan struct{}, maxBodies),
	}
}

// ServeHTTP receives one call.
func (h *Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		Detail(w, http.StatusMethodNotAllowed, "Method not allowed.")
		return
	}
	// Reading does not end with a context, and net/http reads on after an answer. This fails where
	// there is no connection, and then there is nothing to wait for.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.patience))
	token, bearer := Bearer(r) // one that is not the secret may be for a proxy before this
	proven, sum := bearer && Same(token, h.Secret), signature(r.Header.Get(h.SignatureHeader))
	places := h.unproven
	switch {
	case proven:
		places = h.proven
	case len(sum) != sha256.Size: // whatever the body is
		h.refuse(w, r)
		return
	}
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-time.After(placePatience):
		w.Header().Set("Retry-After", "1")
		Detail(w, http.StatusServiceUnavailable, "Too many calls at once.")
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), h.patience) // the caller may not wait
	defer cancel()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBytes))
	if err != nil {
		h.Count("unreadable")
		status, detail := http.StatusBadRequest, "The body could not be read."
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			status, detail = http.StatusRequestEntityTooLarge, "The body is too large."
		}
		Detail(w, status, detail)
		return
	}
	mac := hmac.New(sha256.New, []byte(h.Secret))
	mac.Write(body)
	if !proven && !hmac.Equal(sum, mac.Sum(nil)) {
		h.refuse(w, r)
		return
	}
	concerned, err := h.Match(ctx, body)
	if err != nil {
		h.Count("unreadable")
		h.Logger.WarnContext(ctx, "webhook call not understood", "error", err, "bytes", len(body))
		Detail(w, http.StatusBadRequest, "The configured programs cannot read the body.")
		return
	}
	h.Logger.InfoContext(ctx, "the CMS reports changed content", "resources", concerned, "bytes", len(body), "from", r.RemoteAddr)
	for _, r := range concerned {
		err = errors.Join(err, h.Purge(ctx, r))
	}
	switch {
	case err != nil:
		h.Count("failed")
		h.Logger.WarnContext(ctx, "cannot purge the content reported as changed", "resources", concerned, "error", err)
		w.Header().Set("Retry-After", "1")
		Detail(w, http.StatusServiceUnavailable, "Redis did not purge all of it.")
		return
	case len(concerned) == 0:
		h.Count("unmatched")
	default:
		h.Count("accepted")
	}
	answer, _ := json.Marshal(map[string]any{"purging": append([]shape.Resource{}, concerned...)}) // texts
	WriteJSON(w, http.StatusAccepted, append(answer, '\n'))
}

// Bearer returns the token of an Authorization header of that scheme (RFC 6750, section 2.1).
func Bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// Same compares secrets. Their digests are of one length, so comparing them leaks nothing.
func Same(given, want string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// signature decodes an HMAC; nil if it is neither hexadecimal nor base64.
func signature(text string) []byte {
	text = strings.TrimPrefix(strings.TrimSpace(text), "sha256=")
	sum, err := hex.DecodeString(text)
	if err != nil {
		sum, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil {
		return nil
	}
	return sum
}

// refuse answers a call that is not genuine. The first is logged, then one a minute with the number.
func (h *Hook) refuse(w http.ResponseWriter, r *http.Request) {
	h.Count("refused")
	h.refused.Add(1)
	h.notice.Do(func() { //nolint:contextcheck // it has the context of the request
		h.Logger.WarnContext(r.Context(), "webhook call refused: neither a valid signature nor a valid token",
			"calls", h.refused.Swap(0), "from", r.RemoteAddr)
	})
	Detail(w, http.StatusUnauthorized, "The call has neither a valid signature nor a valid token.")
}

// Detail writes an error. The text needs no escaping.
func Detail(w http.ResponseWriter, status int, text string) {
	WriteJSON(w, status, []byte(`{"detail":"`+text+`"}`+"\n"))
}

// WriteJSON writes an answer that nobody keeps.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone needs no answer
}
