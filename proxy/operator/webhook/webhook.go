// Package webhook hears from a CMS that its content has changed.
//
// One delivery goes like this: its body is read, within a bound; it shows that it knows the secret, by an HMAC-SHA256
// over the body or as a bearer's token; if times are signed, one that is too old, or was taken before, is refused; the
// predicates say which resources it concerns; it is answered with 202, and these are purged softly behind it. Deliveries
// that come close together are one purge: a CMS that saves a hundred items at once makes one fetch, not a hundred.
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
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"vitrine/upstream/shape"
)

// Options say who is believed and what is done.
type Options struct {
	// Secret is the key of the HMAC, and the bearer's token. Required.
	Secret string
	// SignatureHeader holds the HMAC-SHA256 in hexadecimal, with or without sha256= before it, or in base64. Empty
	// means X-Vitrine-Signature.
	SignatureHeader string
	// TimestampHeader holds the Unix time in seconds of the delivery, which is then signed as well: TIME.BODY. Empty
	// means that times are not signed, and nothing is known of a delivery that is sent again.
	TimestampHeader string
	// Window is how far the time of a delivery may be from the time here. Zero means 5 minutes.
	Window time.Duration
	// MaxBytes bounds a body (413 beyond). Zero means 1 MiB.
	MaxBytes int64
	// Match says by its body whether a delivery concerns a resource. A resource that is missing is always concerned.
	Match map[shape.Resource]func(ctx context.Context, body []byte) (bool, error)
	// Purge purges a resource softly. Required.
	Purge func(ctx context.Context, r shape.Resource) error
	// Pause is how long after a purge the next deliveries are gathered. Zero means 1 s.
	Pause time.Duration
	// Count is told of each delivery: accepted, unmatched, refused, replayed, unreadable. Nil: nobody counts.
	Count func(outcome string)
	// Logger gets a line of each delivery. Nil means slog.Default().
	Logger *slog.Logger
}

// Hook hears deliveries. It is an http.Handler; Run does what they ask for.
type Hook struct {
	o        Options
	patience time.Duration // bounds what one delivery may cost
	wake     chan struct{} // capacity 1

	mu      sync.Mutex // guards what follows
	pending map[shape.Resource]bool
	seen    map[[sha256.Size]byte]time.Time // the signatures taken, and until when they are kept
	refused int                             // since the log was told
	told    time.Time
}

// New makes a hook. It fails if the options are not usable.
func New(o Options) (*Hook, error) {
	switch {
	case o.Secret == "":
		return nil, errors.New("webhook: Secret is required")
	case o.Purge == nil:
		return nil, errors.New("webhook: Purge is required")
	case o.Window < 0 || o.MaxBytes < 0 || o.Pause < 0:
		return nil, errors.New("webhook: a bound is negative")
	}
	setDefault(&o.SignatureHeader, "X-Vitrine-Signature")
	setDefault(&o.Window, 5*time.Minute)
	setDefault(&o.MaxBytes, 1<<20)
	setDefault(&o.Pause, time.Second)
	if o.Count == nil {
		o.Count = func(string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Hook{
		o: o, patience: defaultPatience, wake: make(chan struct{}, 1),
		pending: map[shape.Resource]bool{}, seen: map[[sha256.Size]byte]time.Time{},
	}, nil
}

func setDefault[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}

// defaultPatience is that of a Hook.
const defaultPatience = 5 * time.Second

// ServeHTTP takes one delivery.
func (h *Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		reply(w, http.StatusMethodNotAllowed, `{"detail":"Method not allowed."}`)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.patience)
	defer cancel()
	// Reading does not end with the context, and whoever sends this has shown no secret yet. It fails where there is
	// no connection, and then nothing to wait for.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.patience))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.o.MaxBytes))
	if err != nil {
		h.o.Count("unreadable")
		status, detail := http.StatusBadRequest, `{"detail":"The body could not be read."}`
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			status, detail = http.StatusRequestEntityTooLarge, `{"detail":"The body is too large."}`
		}
		reply(w, status, detail)
		return
	}
	if err := h.admit(r, body); err != nil {
		h.refuse(ctx, w, r, err)
		return
	}
	concerned, err := h.match(ctx, body)
	if err != nil {
		h.o.Count("unreadable")
		h.o.Logger.WarnContext(ctx, "a delivery of the webhook cannot be read", "error", err, "bytes", len(body))
		reply(w, http.StatusBadRequest, `{"detail":"The body is not what the configured predicates read."}`)
		return
	}
	outcome := "accepted"
	if len(concerned) == 0 {
		outcome = "unmatched"
	}
	h.o.Count(outcome)
	h.o.Logger.InfoContext(ctx, "the CMS says that content changed", "resources", concerned, "bytes", len(body))
	h.ask(concerned)
	answer, err := json.Marshal(map[string]any{"purging": concerned})
	if err != nil {
		answer = []byte(`{}`)
	}
	reply(w, http.StatusAccepted, string(answer))
}

var (
	errUnknown  = errors.New("neither a signature nor a token that is right")
	errTime     = errors.New("its time is missing, or too far from the time here")
	errReplayed = errors.New("it was taken before")
)

// admit reports whether the delivery comes from somebody who knows the secret, now and for the first time.
func (h *Hook) admit(r *http.Request, body []byte) error {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		given, want := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(h.o.Secret))
		if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
			return errUnknown
		}
		return nil // a token says nothing of when it was sent
	}
	stamp := ""
	mac := hmac.New(sha256.New, []byte(h.o.Secret))
	if h.o.TimestampHeader != "" {
		stamp = r.Header.Get(h.o.TimestampHeader)
		mac.Write([]byte(stamp + "."))
	}
	mac.Write(body)
	sum := mac.Sum(nil)
	if !hmac.Equal(signature(r.Header.Get(h.o.SignatureHeader)), sum) {
		return errUnknown
	}
	if h.o.TimestampHeader == "" {
		return nil
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	now := time.Now()
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > h.o.Window {
		return errTime
	}
	return h.first([sha256.Size]byte(sum), now)
}

// signature reads the bytes of an HMAC; nil if they are none.
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

// first notes a signature, which counts once: until it has become too old anyway.
func (h *Hook) first(sum [sha256.Size]byte, now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for known, until := range h.seen {
		if now.After(until) {
			delete(h.seen, known)
		}
	}
	if _, again := h.seen[sum]; again {
		return errReplayed
	}
	h.seen[sum] = now.Add(2 * h.o.Window)
	return nil
}

// refuse answers a delivery that is not believed. The log has a line of the first, and then one a minute with their number.
func (h *Hook) refuse(ctx context.Context, w http.ResponseWriter, r *http.Request, why error) {
	outcome := "refused"
	if errors.Is(why, errReplayed) {
		outcome = "replayed"
	}
	h.o.Count(outcome)
	h.mu.Lock()
	h.refused++
	refused, now := h.refused, time.Now()
	tell := now.Sub(h.told) > time.Minute
	if tell {
		h.told, h.refused = now, 0
	}
	h.mu.Unlock()
	if tell {
		h.o.Logger.WarnContext(ctx, "a delivery of the webhook is refused", "reason", why, "deliveries", refused, "from", r.RemoteAddr)
	}
	reply(w, http.StatusUnauthorized, fmt.Sprintf(`{"detail":"The delivery is refused: %v."}`, why))
}

// match lists the resources that a delivery concerns.
func (h *Hook) match(ctx context.Context, body []byte) ([]shape.Resource, error) {
	concerned := []shape.Resource{}
	for _, r := range shape.Resources() {
		predicate := h.o.Match[r]
		if predicate == nil {
			concerned = append(concerned, r)
			continue
		}
		ok, err := predicate(ctx, body)
		if err != nil {
			return nil, err
		}
		if ok {
			concerned = append(concerned, r)
		}
	}
	return concerned, nil
}

// ask has Run purge.
func (h *Hook) ask(resources []shape.Resource) {
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

// Run purges what is asked for until ctx ends: the first at once, and what comes within Pause after it together. What
// cannot be purged, since Redis is away, is tried again.
func (h *Hook) Run(ctx context.Context) {
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		h.mu.Lock()
		pending := h.pending
		h.pending = map[shape.Resource]bool{}
		h.mu.Unlock()
		var failed []shape.Resource
		for _, r := range shape.Resources() {
			if !pending[r] {
				continue
			}
			if err := h.o.Purge(ctx, r); err != nil {
				failed = append(failed, r)
				if !failing && ctx.Err() == nil {
					h.o.Logger.WarnContext(ctx, "cannot purge what the CMS says has changed: trying again", "resource", r, "error", err)
				}
			}
		}
		failing = len(failed) > 0
		pause := time.NewTimer(h.o.Pause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		if failing {
			h.ask(slices.Clip(failed))
		}
	}
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body+"\n") // a CMS that has gone needs no answer
}
