package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"vitrine/cache"
	"vitrine/config"
	"vitrine/proxy/metrics"
	"vitrine/proxy/operator"
	"vitrine/upstream"
	"vitrine/upstream/list"
	"vitrine/upstream/shape"
)

// newUpstream makes the client of the configured CMS.
func newUpstream(cfg config.Config, log *slog.Logger, traces *tracing, changes ...func(*upstream.Options)) (*upstream.Client, error) {
	o := upstream.Options{
		URL:           cfg.Upstream.URL,
		Preset:        cfg.Upstream.Preset,
		Authorization: cfg.Upstream.Authorization.Reveal(),
		Timeout:       cfg.Upstream.Timeout,
		Retries:       cfg.Upstream.Retries,
		MaxBytes:      int64(cfg.Upstream.MaxBytes),
		Logger:        log,
		Tracer:        traces.tracer("vitrine/upstream"),
	}
	if err := o.Shared.Parse(cfg.Upstream.Shared.Node); err != nil {
		return nil, refuseUpstream(cfg, err)
	}
	o.Resources = make(map[shape.Resource]list.Resource)
	for _, r := range shape.Resources() {
		configured := cfg.Upstream.Resources.Of(string(r))
		made := list.Resource{Path: configured.Path, Map: configured.Map, Empty: configured.Empty == "true"}
		if err := made.Parse(r, configured.Parts.Node); err != nil {
			return nil, refuseUpstream(cfg, err)
		}
		o.Resources[r] = made
	}
	for _, change := range changes {
		change(&o)
	}
	client, err := upstream.New(o)
	return client, refuseUpstream(cfg, err)
}

// refuseUpstream adds the place in the configuration to a mistake.
func refuseUpstream(cfg config.Config, err error) error {
	if wrong, ok := errors.AsType[*list.Error](err); ok && wrong.Resource == "" {
		return cfg.RefuseBelow("upstream", wrong.Key, wrong.Line, wrong.Err)
	} else if ok {
		return cfg.RefuseBelow("upstream.resources."+string(wrong.Resource), wrong.Key, wrong.Line, wrong.Err)
	}
	if err != nil {
		return cfg.Refuse("upstream.url", err)
	}
	return nil
}

// loader is the upstream as the cache sees it: it fetches one resource, and logs what an operator
// should know about the CMS.
type loader struct {
	client   *upstream.Client
	resource shape.Resource
	meter    *metrics.Meter
	fetches  fetchLog

	known atomic.Pointer[string] // the ETag of the document that the client knows
}

// lastFetch returns the last fetch, or nil. The result is not modified any more.
func (l *loader) lastFetch() *operator.Fetch { return l.fetches.lastFetch() }

// Load fetches. The validators of the copy held make it conditional.
func (l *loader) Load(ctx context.Context, _ string, held *cache.Document) (cache.Loaded, error) {
	var validators upstream.Validators
	if held != nil {
		l.recall(held)
		validators = upstream.Validators{ETag: held.UpstreamETag, LastModified: held.UpstreamLastModified}
	}
	result, err := l.client.Fetch(ctx, l.resource, validators)
	l.fetches.record(ctx, result, err)
	if err != nil {
		return cache.Loaded{}, err
	}
	for _, suspicion := range result.Suspicions {
		l.meter.Suspected(l.resource, suspicion.Kind)
	}
	if !result.NotModified {
		l.know(cache.ETag(result.Document.Body))
	}
	return cache.Loaded{
		NotModified:          result.NotModified,
		Body:                 result.Document.Body,
		UpstreamETag:         result.Validators.ETag,
		UpstreamLastModified: result.Validators.LastModified,
		Status:               result.Status,
	}, nil
}

// recall informs the client of a document that another replica has fetched, so that any replica
// notices a list that became empty.
func (l *loader) recall(held *cache.Document) {
	if l.know(held.ETag) {
		l.client.Recall(l.resource, held.Body)
	}
}

// know records that the client knows the document with this ETag, and reports whether it is new.
func (l *loader) know(etag string) (news bool) {
	before := l.known.Swap(&etag)
	return before == nil || *before != etag
}

// remindEvery is how often a persistent failure is logged again.
const remindEvery = 10 * time.Minute

// A fetchLog logs the outcome of the fetches of one resource: a new outcome at its own level,
// repetitions at debug, so that a CMS that is down for a night does not fill the log. Repetitions
// are counted.
type fetchLog struct {
	resource shape.Resource
	log      *slog.Logger
	held     atomic.Pointer[func() cache.Snapshot] // nil until there is a reader
	now      func() time.Time                      // nil: time.Now

	mu      sync.Mutex // guards the fields below
	last    *operator.Fetch
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

func (l *fetchLog) lastFetch() *operator.Fetch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *fetchLog) time() time.Time {
	if l.now != nil {
		return l.now()
	}
	return time.Now()
}

// record logs one fetch.
func (l *fetchLog) record(ctx context.Context, result upstream.Result, err error) {
	if errors.Is(err, context.Canceled) {
		return // the program ends
	}
	log := l.log.With("resource", l.resource, "duration", result.Duration, "attempts", result.Attempts)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = &operator.Fetch{
		At: l.time(), Milliseconds: milliseconds(result.Duration), Attempts: result.Attempts,
		Status: result.Status, Repairs: result.Document.Repairs.Total(), Suspicions: result.Suspicions,
	}
	if err != nil {
		l.last.Error = err.Error()
		l.fail(ctx, log, err)
		return
	}
	if f := l.failing; f.kind != "" {
		l.failing = failing{}
		log.InfoContext(ctx, "the CMS answers again", "failures", f.count, "after", l.time().Sub(f.since).Round(time.Second))
	}
	log.DebugContext(ctx, "fetched", "status", result.Status, "not_modified", result.NotModified,
		"bytes", len(result.Document.Body), "items", result.Document.Items)
	if !result.NotModified {
		l.describe(ctx, log, result)
	}
}

// fail logs a fetch that failed.
func (l *fetchLog) fail(ctx context.Context, log *slog.Logger, err error) {
	reason, refused := upstream.Code(err), errors.Is(err, shape.ErrRefused)
	if refused {
		reason = "refused"
	}
	now, level := l.time(), slog.LevelDebug
	switch kind := failureKind(reason, err); {
	case kind != l.failing.kind:
		if l.failing.kind == "" {
			l.failing.since = now
		}
		l.failing.kind, level = kind, slog.LevelWarn
	case now.Sub(l.failing.logged) >= remindEvery:
		level = slog.LevelWarn
	}
	l.failing.count++
	if level == slog.LevelWarn {
		l.failing.logged = now
	}
	log = log.With("reason", reason, "error", err, "failures", l.failing.count,
		"for", now.Sub(l.failing.since).Round(time.Second), "serving", l.serving())
	if refused {
		log.Log(ctx, level, "refused the CMS's document")
	} else {
		log.Log(ctx, level, "cannot fetch")
	}
}

// failureKind distinguishes kinds of failure. The text does not: it can contain the port of a
// connection, which differs each time.
func failureKind(reason string, err error) string {
	if refused, ok := errors.AsType[*shape.RefusedError](err); ok {
		return reason + " " + refused.Error()
	}
	if status, ok := errors.AsType[*upstream.StatusError](err); ok {
		return fmt.Sprint(reason, " ", status.Code)
	}
	return reason
}

// serving describes what visitors get meanwhile.
func (l *fetchLog) serving() string {
	held := l.held.Load()
	if held == nil {
		return "errors, because nothing is held"
	}
	switch s := (*held)(); s.State {
	case cache.StateFresh:
		return "the copy held, which is fresh"
	case cache.StateStale:
		return "the stale copy held, until " + s.ServableUntil.UTC().Format(time.RFC3339)
	default:
		return "errors, because nothing is held"
	}
}

// describe logs repairs and suspicions of a new document.
func (l *fetchLog) describe(ctx context.Context, log *slog.Logger, result upstream.Result) {
	if text := fmt.Sprint(result.Suspicions); text != l.suspect {
		l.suspect = text
		for _, suspicion := range result.Suspicions {
			log.WarnContext(ctx, "serving a suspicious document", "kind", suspicion.Kind, "suspicion", suspicion.String())
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
