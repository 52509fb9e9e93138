package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"vitrine/cache"
	"vitrine/proxy/operator"
	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/represent"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// loader is the upstream as the cache sees it: it fetches one resource, and logs what an operator
// should know about the CMS. A new outcome is logged at its own level, repetitions at debug, so
// that a CMS that is down for a night does not fill the log. Repetitions are counted.
type loader struct {
	client   *upstream.Client
	resource shape.Resource
	meter    *metrics.Meter
	log      *slog.Logger
	now      func() time.Time
	cms      *outage // shared by the loaders of one CMS

	held atomic.Pointer[func() cache.Snapshot[*represent.Document]] // nil until there is a reader
	last atomic.Pointer[operator.Fetch]                             // nil before the first

	mu      sync.Mutex // guards the fields below
	failing failing
	repairs string // the last outcome logged
	suspect string
}

// failing is a persistent failure.
type failing struct {
	kind   string // "" while there is none
	since  time.Time
	logged time.Time // when it was last logged
	count  int       // fetches in a row
}

// outage is the failure of the CMS as a whole, so that it is logged for the first resource alone.
type outage struct {
	mu     sync.Mutex // guards the fields below
	reason string     // "" while there is none
	logged time.Time
}

// news reports whether the outage is to be logged: a new one, or one of long ago. "" ends it.
func (o *outage) news(reason string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if reason == o.reason && now.Sub(o.logged) < remindEvery {
		return false
	}
	o.reason, o.logged = reason, now
	return true
}

// Load fetches. The validators of the copy held make it conditional. Any replica notices a list
// that became empty, also if another one fetched it.
func (l *loader) Load(ctx context.Context, _ string, held *cache.Document) (cache.Loaded, error) {
	var from upstream.Held
	if held != nil {
		from = upstream.Held{
			Validators: upstream.Validators{ETag: held.UpstreamETag, LastModified: held.UpstreamLastModified},
			Body:       held.Body, Suspicions: suspicionsOf(held),
		}
	}
	result, err := l.client.Fetch(ctx, l.resource, from)
	upstream.Collect(result.Document.Body)
	l.record(ctx, result, err)
	if err != nil {
		return cache.Loaded{}, err
	}
	loaded := cache.Loaded{
		NotModified:          result.NotModified,
		Body:                 result.Document.Body,
		UpstreamETag:         result.Validators.ETag,
		UpstreamLastModified: result.Validators.LastModified,
		Status:               result.Status,
	}
	if result.NotModified { // nothing else is known of it
		loaded.Suspicions = held.Suspicions
		return loaded, nil
	}
	for _, suspicion := range result.Suspicions {
		l.meter.Suspected(l.resource, suspicion.Kind)
	}
	if len(result.Suspicions) > 0 {
		text, _ := json.Marshal(result.Suspicions) // texts and numbers
		loaded.Suspicions = string(text)
	}
	return loaded, nil
}

// remindEvery is how often a persistent failure is logged again.
const remindEvery = 10 * time.Minute

// record logs one fetch.
func (l *loader) record(ctx context.Context, result upstream.Result, err error) {
	if errors.Is(err, context.Canceled) {
		return // the program ends
	}
	log := l.log.With("resource", l.resource, "duration", result.Duration, "attempts", result.Attempts)
	l.mu.Lock()
	defer l.mu.Unlock()
	fetch := &operator.Fetch{
		At: l.now(), Milliseconds: operator.Milliseconds(result.Duration), Attempts: result.Attempts,
		Status: result.Status, Repairs: result.Document.Repairs.Total(), Suspicions: result.Suspicions,
	}
	defer l.last.Store(fetch)
	if err != nil {
		fetch.Error = err.Error()
		l.fail(ctx, log, err)
		return
	}
	l.cms.news("", l.now())
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
func (l *loader) fail(ctx context.Context, log *slog.Logger, err error) {
	reason, refused := upstream.Code(err), errors.Is(err, shape.ErrRefused)
	if refused {
		reason = "refused"
	}
	kind := reason
	if at, ok := errors.AsType[*shape.RefusedError](err); ok {
		kind += " " + at.Error()
	} else if status, ok := errors.AsType[*upstream.StatusError](err); ok {
		kind += fmt.Sprint(" ", status.Code)
	}
	now, level, f := l.now(), slog.LevelDebug, &l.failing
	if f.kind == "" {
		f.since = now
	}
	if kind != f.kind || now.Sub(f.logged) >= remindEvery {
		f.kind, f.logged, level = kind, now, slog.LevelWarn
	}
	// What is not an answer about the resource is about the CMS.
	if level == slog.LevelWarn && kind == upstream.Code(upstream.ErrUnreachable) && !l.cms.news(kind, now) {
		level = slog.LevelDebug
	}
	f.count++
	log = log.With("reason", reason, "error", err, "failures", f.count,
		"for", now.Sub(f.since).Round(time.Second), "serving", l.serving())
	if refused {
		log.Log(ctx, level, "refused the CMS's document")
	} else {
		log.Log(ctx, level, "cannot fetch")
	}
}

// serving describes what visitors get meanwhile.
func (l *loader) serving() string {
	if held := l.held.Load(); held != nil {
		switch s := (*held)(); {
		case s.Fresh:
			return "the copy held, which is fresh"
		case s.Document != nil:
			return "the stale copy held, until " + s.ServableUntil.UTC().Format(time.RFC3339)
		}
	}
	return "errors, because nothing is held"
}

// describe logs repairs and suspicions of a new document.
func (l *loader) describe(ctx context.Context, log *slog.Logger, result upstream.Result) {
	if text := fmt.Sprint(result.Suspicions); text != l.suspect {
		l.suspect = text
		for _, suspicion := range result.Suspicions {
			log.WarnContext(ctx, "the CMS's document is suspicious", "kind", suspicion.Kind, "suspicion", suspicion.String())
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

// suspicionsOf are those that stand with a document; none if there is none, or they cannot be read.
func suspicionsOf(d *cache.Document) []upstream.Suspicion {
	all := []upstream.Suspicion{}
	if d == nil || d.Suspicions == "" || json.Unmarshal([]byte(d.Suspicions), &all) != nil {
		return []upstream.Suspicion{}
	}
	return all
}
