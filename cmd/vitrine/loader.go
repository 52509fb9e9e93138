package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

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
