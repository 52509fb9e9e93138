// Package webhook purges softly when a CMS says that its content has changed.
//
// One delivery goes through it in this order:
//
//  1. a bearer token is checked before the body is read, or an HMAC-SHA256 over the body after it;
//  2. the predicates select the resources that the delivery concerns, and it is answered with 202;
//  3. [Hook.Run] purges these. Deliveries within a second are one purge: a CMS that saves a hundred
//     items at once causes one fetch more, not a hundred.
//
// A delivery that is sent again changes nothing.
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
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"vitrine/upstream/shape"
)

// Path is the path of the webhook at the operator's address.
const Path = "/hooks/content"

// Options are the settings of a [Hook].
type Options struct {
	// Secret is the key of the HMAC, and the bearer token.
	Secret string
	// SignatureHeader holds the HMAC-SHA256 in hexadecimal, with or without sha256= before it, or
	// in base64.
	SignatureHeader string
	// Match selects the resources that a delivery concerns, by its body.
	Match func(ctx context.Context, body []byte) ([]shape.Resource, error)
	// Purge purges a resource softly.
	Purge func(ctx context.Context, r shape.Resource) error
	// Count receives the outcome of each delivery: accepted, unmatched, refused or unreadable.
	Count func(outcome string)
	// Logger gets a line of each delivery.
	Logger *slog.Logger
}

const (
	// maxBytes bounds a body (413 beyond).
	maxBytes = 1 << 20
	// maxBodies bounds the bodies that are in memory at the same time, all connections together.
	maxBodies = 8
	// placePatience is how long a delivery waits for a place: one that is refused at once comes again
	// at once.
	placePatience = time.Second
	// defaultPatience bounds the time for one delivery.
	defaultPatience = 5 * time.Second
	// defaultPause is how long after a purge the next deliveries are gathered.
	defaultPause = time.Second
)

// Hook is an http.Handler for deliveries; Run does the purges.
type Hook struct {
	Options
	patience, pause time.Duration
	bodies          chan struct{} // a place for each of maxBodies that a signature is to prove
	proven          chan struct{} // likewise, with the token: strangers cannot take these
	wake            chan struct{} // capacity 1

	refused atomic.Int64   // deliveries since the last log line about them
	notice  rate.Sometimes // logs that line

	mu      sync.Mutex // guards the field below
	pending map[shape.Resource]bool
}

// New makes a hook. All of its options are required.
func New(o Options) *Hook {
	return &Hook{
		Options: o, patience: defaultPatience, pause: defaultPause,
		bodies: make(chan struct{}, maxBodies), proven: make(chan struct{}, maxBodies), wake: make(chan struct{}, 1),
		pending: map[shape.Resource]bool{}, notice: rate.Sometimes{Interval: time.Minute},
	}
}

// ServeHTTP receives one delivery.
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
	places := h.bodies
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
		Detail(w, http.StatusServiceUnavailable, "Too many deliveries at once.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.patience)
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
	if !proven && !h.signed(body, sum) {
		h.refuse(w, r)
		return
	}
	concerned, err := h.Match(ctx, body)
	if err != nil {
		h.Count("unreadable")
		h.Logger.WarnContext(ctx, "webhook delivery not understood", "error", err, "bytes", len(body))
		Detail(w, http.StatusBadRequest, "The configured predicates cannot read the body.")
		return
	}
	outcome := "accepted"
	if len(concerned) == 0 {
		outcome = "unmatched"
	}
	h.Count(outcome)
	h.Logger.InfoContext(ctx, "the CMS reports changed content", "resources", concerned, "bytes", len(body), "from", r.RemoteAddr)
	h.Enqueue(concerned)
	answer, _ := json.Marshal(map[string]any{"purging": append([]shape.Resource{}, concerned...)}) // texts
	WriteJSON(w, http.StatusAccepted, append(answer, '\n'))
}

// signed reports whether sum is the HMAC of a body.
func (h *Hook) signed(body, sum []byte) bool {
	mac := hmac.New(sha256.New, []byte(h.Secret))
	mac.Write(body)
	return hmac.Equal(sum, mac.Sum(nil))
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
	if sum, err := hex.DecodeString(text); err == nil {
		return sum
	}
	sum, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return sum
}

// refuse answers a delivery that is not genuine. The first is logged, then one a minute with their
// number.
func (h *Hook) refuse(w http.ResponseWriter, r *http.Request) {
	h.Count("refused")
	h.refused.Add(1)
	ctx := r.Context()
	h.notice.Do(func() {
		h.Logger.WarnContext(ctx, "webhook delivery refused: neither a valid signature nor a valid token",
			"deliveries", h.refused.Swap(0), "from", r.RemoteAddr)
	})
	Detail(w, http.StatusUnauthorized, "The delivery has neither a valid signature nor a valid token.")
}

// Enqueue has Run purge.
func (h *Hook) Enqueue(resources []shape.Resource) {
	h.mu.Lock()
	for _, r := range resources {
		h.pending[r] = true
	}
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Run purges the resources enqueued until ctx ends: the first at once, and those that follow within
// the pause together. A purge that fails, since Redis is unreachable, is tried again. Deliveries
// that were accepted before ctx ended are purged before Run ends; it returns those that could not be.
func (h *Hook) Run(ctx context.Context) (left []shape.Resource) {
	failing := false
	for {
		select {
		case <-ctx.Done():
		case <-h.wake:
		}
		last := ctx.Err() != nil
		h.mu.Lock()
		pending := h.pending
		h.pending = map[shape.Resource]bool{}
		h.mu.Unlock()
		var failed []shape.Resource
		purging, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.patience)
		for _, r := range shape.Resources() {
			if !pending[r] {
				continue
			}
			if err := h.Purge(purging, r); err != nil {
				failed = append(failed, r)
				if !failing || last {
					h.Logger.WarnContext(ctx, "cannot purge the content reported as changed", "resource", r, "error", err, "retrying", !last)
				}
			}
		}
		cancel()
		if last {
			return failed
		}
		if len(pending) == 0 { // no purge, so that the next delivery need not wait
			continue
		}
		h.Enqueue(failed)
		failing = len(failed) > 0
		select {
		case <-ctx.Done():
		case <-time.After(h.pause):
		}
	}
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
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone needs no answer
}
