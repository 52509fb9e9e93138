// Package loader is the CMS as the cache sees it. [Loader.Load] fetches a resource, conditionally if
// a copy is cached, says for how long it is fresh (again.go), and logs what an operator should know.
package loader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"vitrine/cache"
	"vitrine/proxy/operator"
	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/represent"
	"vitrine/proxy/verdict"
	"vitrine/upstream"
	"vitrine/upstream/guard"
	"vitrine/upstream/sanitize"
	"vitrine/upstream/shape"
)

// A Loader fetches one resource, and logs what an operator should know about the CMS. A new outcome
// is logged at its own level, repetitions at debug, so that a CMS that is down for a night does not
// fill the log. Repetitions are counted.
type Loader struct {
	client   *upstream.Client
	resource shape.Resource
	meter    *metrics.Meter
	log      *slog.Logger
	policy   guard.Policy
	now      func() time.Time

	held   atomic.Pointer[func() cache.Snapshot[*represent.Document]] // nil until there is a reader
	purged atomic.Int64                                               // when it was purged softly, in Unix nanoseconds; 0 if it was not since the last load
	last   atomic.Pointer[verdict.Fetch]                              // nil before the first

	mu      sync.Mutex // guards the fields below
	failing failing
	repairs string // the last outcome logged
	suspect string
}

// New makes the loader of a resource.
func New(client *upstream.Client, r shape.Resource, policy guard.Policy, meter *metrics.Meter, log *slog.Logger) *Loader {
	return &Loader{client: client, resource: r, policy: policy, meter: meter, log: log, now: time.Now}
}

// SetHeld has held return what visitors get.
func (l *Loader) SetHeld(held func() cache.Snapshot[*represent.Document]) { l.held.Store(&held) }

// Purged notes a soft purge.
func (l *Loader) Purged() { l.purged.Store(l.now().UnixNano()) }

// Last is the last fetch; nil before the first.
func (l *Loader) Last() *verdict.Fetch { return l.last.Load() }

// failing is a persistent failure.
type failing struct {
	kind   string // "" while there is none
	since  time.Time
	logged time.Time // when it was last logged
	count  int       // fetches in a row
}

// Load fetches. The validators of the cached copy make it conditional. Any replica notices a list
// that became empty, also if another one fetched it.
func (l *Loader) Load(ctx context.Context, _ string, held *cache.Document) (cache.Loaded, error) {
	at := l.purged.Swap(0)
	purged := isPurged(held, at, l.now())
	// At the start too: a CDN's old copy is worth little then.
	from := upstream.Held{Purged: held == nil || purged || isAgain(held, firstAgain) || isAgain(held, secondAgain)}
	if held != nil {
		from.Validators = upstream.Validators{ETag: held.UpstreamETag, LastModified: held.UpstreamLastModified}
	}
	if copyOf := l.held.Load(); copyOf != nil { // of any source
		if s := (*copyOf)(); s.Document != nil && s.Value != nil {
			from.Survey, from.Warnings = s.Value.Survey, Warnings(s.Document)
			if held == nil {
				from.Other = l.policy
			}
		}
	}
	result, err := l.client.Fetch(ctx, l.resource, from)
	upstream.Collect(result.Document.Body)
	l.record(ctx, result, err)
	if err != nil {
		l.purged.CompareAndSwap(0, at)
		return cache.Loaded{}, err
	}
	loaded := cache.Loaded{
		NotModified:          result.NotModified,
		Body:                 result.Document.Body,
		UpstreamETag:         result.Validators.ETag,
		UpstreamLastModified: result.Validators.LastModified,
		Status:               result.Status,
		Age:                  result.Age,
		Fresh:                freshness(held, purged, result.Document.Body, result.Unsteady),
	}
	if result.NotModified { // nothing else is known of it
		loaded.Suspicions = held.Suspicions
		return loaded, nil
	}
	for _, warning := range result.Warnings.Standing() {
		l.meter.Suspected(l.resource, warning.Kind)
	}
	if len(result.Warnings) > 0 {
		text, _ := json.Marshal(result.Warnings) // texts and numbers
		loaded.Suspicions = string(text)
	}
	return loaded, nil
}

// remindEvery is how often a persistent failure is logged again.
const remindEvery = 10 * time.Minute

// record logs one fetch.
func (l *Loader) record(ctx context.Context, result upstream.Result, err error) {
	if errors.Is(err, context.Canceled) {
		return // the program ends
	}
	log := l.log.With("resource", l.resource, "duration", result.Duration, "attempts", result.Attempts, "trace_id", result.TraceID)
	l.mu.Lock()
	defer l.mu.Unlock()
	fetch := &verdict.Fetch{
		At: l.now(), Milliseconds: operator.Milliseconds(result.Duration), Attempts: result.Attempts,
		Status: result.Status, Repairs: result.Document.Repairs.Total(), Suspicions: result.Warnings.Standing(),
	}
	defer l.last.Store(fetch)
	if err != nil {
		fetch.Error, fetch.Cause, fetch.Rejected = err.Error(), Cause(err), errors.Is(err, shape.ErrRefused)
		l.fail(ctx, log, err)
		return
	}
	if f := l.failing; f.kind != "" {
		l.failing = failing{}
		log.InfoContext(ctx, "the CMS answers again", "failures", f.count, "after", l.now().Sub(f.since).Round(time.Second))
	}
	log.DebugContext(ctx, "fetched", "status", result.Status, "not_modified", result.NotModified,
		"bytes", len(result.Document.Body), "items", result.Document.Items)
	if !result.NotModified {
		l.describe(ctx, log, result)
	}
}

// fail logs a fetch that failed. The error's text does not distinguish kinds of failure: it can
// contain the port of a connection, which differs each time.
func (l *Loader) fail(ctx context.Context, log *slog.Logger, err error) {
	reason, refused := upstream.Code(err), errors.Is(err, shape.ErrRefused)
	if refused {
		reason = "refused"
	}
	kind := reason + answered(err)
	now, level, f := l.now(), slog.LevelDebug, &l.failing
	if f.kind == "" {
		f.since = now
	}
	if kind != f.kind || now.Sub(f.logged) >= remindEvery {
		f.kind, f.logged, level = kind, now, slog.LevelWarn
	}
	f.count++
	log = log.With("reason", reason, "error", err, "failures", f.count,
		"for", now.Sub(f.since).Round(time.Second), "serving", l.serving())
	if refused {
		log.Log(ctx, level, "rejected the CMS's document")
	} else {
		log.Log(ctx, level, "cannot fetch")
	}
}

// answered is what the CMS sent, in a few words; "" if it sent nothing.
func answered(err error) string {
	if at, ok := errors.AsType[*shape.RefusedError](err); ok {
		return at.Error()
	} else if status, ok := errors.AsType[*upstream.StatusError](err); ok {
		return fmt.Sprint("status ", status.Code)
	}
	return ""
}

// Cause is an error in a few words: what the CMS sent, or the last part of the text.
func Cause(err error) string {
	if text := answered(err); text != "" {
		return text
	}
	text := err.Error()
	return sanitize.Clip(strings.TrimSpace(text[strings.LastIndex(text, ": ")+1:]), 100)
}

// serving describes what visitors get meanwhile.
func (l *Loader) serving() string {
	if held := l.held.Load(); held != nil {
		switch s := (*held)(); {
		case s.Fresh:
			return "the cached copy, which is fresh"
		case s.Document != nil:
			return "the stale cached copy, until " + s.ServableUntil.UTC().Format(time.RFC3339)
		}
	}
	return "errors, because nothing is cached"
}

// describe logs repairs and suspicions of a new document.
func (l *Loader) describe(ctx context.Context, log *slog.Logger, result upstream.Result) {
	standing := result.Warnings.Standing()
	if text := fmt.Sprint(standing); text != l.suspect {
		l.suspect = text
		for _, warning := range standing {
			log.WarnContext(ctx, "the CMS's document has content warnings", "kind", warning.Kind, "warning", warning.Warning())
		}
	}
	repairs := result.Document.Repairs
	if text := fmt.Sprint(repairs.LogValue()); text != l.repairs {
		l.repairs = text
		if repairs.Total() > 0 {
			log.InfoContext(ctx, "repaired the CMS's document", "repairs", repairs)
		}
	}
}

// Warnings are those that stand with a document; none if there is none, or they cannot be read.
func Warnings(d *cache.Document) (all guard.Findings) {
	if d == nil || d.Suspicions == "" || json.Unmarshal([]byte(d.Suspicions), &all) != nil {
		return guard.Findings{}
	}
	return all
}
