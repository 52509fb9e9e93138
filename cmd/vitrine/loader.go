package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"vitrine/cache"
	"vitrine/config"
	"vitrine/proxy/admin"
	"vitrine/proxy/measure"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// newUpstream makes the client of the configured CMS. Claim, which may be nil,
// lets one replica at a time probe a CMS that is left alone.
func newUpstream(cfg config.Config, log *slog.Logger, claim claimFunc) (*upstream.Client, error) {
	o := upstream.Options{
		URL:           cfg.Upstream.URL,
		Preset:        cfg.Upstream.Preset,
		Authorization: cfg.Upstream.Authorization.Reveal(),
		Timeout:       cfg.Upstream.Timeout,
		Retries:       cfg.Upstream.Retries,
		MaxBytes:      int64(cfg.Upstream.MaxBytes),
		Failover:      upstream.Failover{Claim: claim},
		Logger:        log,
	}
	o.Paths = make(map[shape.Resource]string)
	o.Resources = make(map[shape.Resource]upstream.ResourceOptions)
	for r, configured := range map[shape.Resource]config.Resource{
		shape.Catalogue: cfg.Upstream.Resources.Catalogue,
		shape.Rules:     cfg.Upstream.Resources.Rules,
		shape.Banners:   cfg.Upstream.Resources.Banners,
	} {
		if configured.Path != "" {
			o.Paths[r] = configured.Path
		}
		if options := resourceOptions(configured); len(options.Parts) > 0 || options.Map != "" {
			o.Resources[r] = options
		}
	}
	client, err := upstream.New(o)
	if wrong, ok := errors.AsType[*upstream.ResourceError](err); ok {
		return nil, cfg.RefuseBelow("upstream.resources."+string(wrong.Resource), wrong.Key, wrong.Err)
	}
	if err != nil {
		return nil, cfg.Refuse("upstream.url", err)
	}
	return client, nil
}

type claimFunc = func(ctx context.Context, name string, d time.Duration) (release func(keep time.Duration), ok bool)

// resourceOptions turns what is configured into what the upstream takes.
func resourceOptions(c config.Resource) upstream.ResourceOptions {
	o := upstream.ResourceOptions{Map: c.Map}
	for _, p := range c.Parts.List {
		o.Parts = append(o.Parts, upstream.Part{
			Name: p.Name, Path: p.Path, Query: p.Query, Headers: p.Headers,
			Paging: upstream.Paging(p.Paging), Items: p.Items, IDs: p.IDs, Map: p.Map,
		})
	}
	return o
}

// loader is the upstream as the cache sees it: it fetches one resource, and
// tells the log what an operator should know of the CMS's answers.
type loader struct {
	client   *upstream.Client
	resource shape.Resource
	meter    *measure.Meter
	log      *slog.Logger

	mu      sync.Mutex // guards what follows
	last    *admin.Fetch
	failure string // what was told last, so that it is told once
	repairs string
	known   string // the ETag of the document that the client knows of
	suspect string
}

// lastFetch tells of the last fetch, nil when there was none. It is not
// written to any more.
func (l *loader) lastFetch() *admin.Fetch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Load fetches. The validators of the version held make it conditional.
func (l *loader) Load(ctx context.Context, _ string, held *cache.Document) (cache.Loaded, error) {
	var validators upstream.Validators
	if held != nil {
		l.recall(held)
		validators = upstream.Validators{ETag: held.UpstreamETag, LastModified: held.UpstreamLastModified}
	}
	result, err := l.client.Fetch(ctx, l.resource, validators)
	l.tell(ctx, result, err)
	if err != nil {
		return cache.Loaded{}, err
	}
	return cache.Loaded{
		NotModified:          result.NotModified,
		Body:                 result.Document.Body,
		UpstreamETag:         result.Validators.ETag,
		UpstreamLastModified: result.Validators.LastModified,
		Status:               result.Status,
	}, nil
}

// recall tells the client of a document that another replica has fetched, so
// that a list which is empty now is noticed by whoever fetches first.
func (l *loader) recall(held *cache.Document) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held.ETag != l.known {
		l.known = held.ETag
		l.client.Recall(l.resource, held.Body)
	}
}

// tell logs a fetch: what is new at its level, and what was told before at
// debug, so that a CMS that is away for a night does not fill the log.
func (l *loader) tell(ctx context.Context, result upstream.Result, err error) {
	if errors.Is(err, context.Canceled) {
		return // the program ends
	}
	log := l.log.With("resource", l.resource, "duration", result.Duration, "attempts", result.Attempts)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = &admin.Fetch{
		At: time.Now(), Milliseconds: milliseconds(result.Duration), Attempts: result.Attempts,
		Status: result.Status, Repairs: result.Document.Repairs.Total(), Suspicions: result.Suspicions,
	}
	if err != nil {
		l.last.Error = err.Error()
		level := slog.LevelDebug
		if text := err.Error(); text != l.failure {
			level, l.failure = slog.LevelWarn, text
		}
		if errors.Is(err, shape.ErrRefused) {
			log.Log(ctx, level, "refused what the CMS sent", "error", err)
		} else {
			log.Log(ctx, level, "cannot fetch", "error", err)
		}
		return
	}
	if l.failure != "" {
		l.failure = ""
		log.InfoContext(ctx, "the CMS answers again")
	}
	log.DebugContext(ctx, "fetched", "status", result.Status, "not_modified", result.NotModified,
		"bytes", len(result.Document.Body), "items", result.Document.Items)
	if result.NotModified {
		return
	}
	for _, suspicion := range result.Suspicions {
		l.meter.Suspected(l.resource, suspicion.Kind)
	}
	if text := fmt.Sprint(result.Suspicions); text != l.suspect {
		l.suspect = text
		for _, suspicion := range result.Suspicions {
			log.WarnContext(ctx, "serving what looks wrong", "kind", suspicion.Kind, "suspicion", suspicion.String())
		}
	}
	l.known = cache.ETag(result.Document.Body)
	repairs := result.Document.Repairs
	if text := fmt.Sprint(repairs.LogValue()); text != l.repairs {
		l.repairs = text
		if repairs.Total() > 0 {
			log.InfoContext(ctx, "repaired what the CMS sent", "repairs", repairs)
		}
	}
}
