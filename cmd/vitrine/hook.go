package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"

	"vitrine/cache"
	"vitrine/config"
	"vitrine/proxy/metrics"
	"vitrine/proxy/operator/webhook"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// newHook makes the configured webhook, or nil.
func newHook(cfg config.Config, store *cache.Store, meter *metrics.Meter, log *slog.Logger) (*webhook.Hook, error) {
	c := cfg.Hook
	if c.Secret.Reveal() == "" {
		return nil, nil //nolint:nilnil // nobody wants one
	}
	var always []shape.Resource
	var parts []mapping.Items
	for _, r := range shape.Resources() {
		source := c.Match.Of(string(r))
		if source == "true" { // whatever is sent, even if it is not JSON
			always = append(always, r)
			continue
		}
		key := "hook.match." + string(r)
		program, err := mapping.Compile("", key, source)
		if err != nil {
			return nil, cfg.Refuse(key, err)
		}
		parts = append(parts, mapping.Items{Name: string(r), Root: "delivery", List: true, Map: program, MaxItems: 100})
	}
	hook := webhook.New(webhook.Options{
		Secret:          c.Secret.Reveal(),
		SignatureHeader: c.SignatureHeader,
		Match: func(ctx context.Context, body []byte) ([]shape.Resource, error) {
			return match(ctx, always, parts, body)
		},
		Purge: func(ctx context.Context, r shape.Resource) error {
			_, err := store.Purge(ctx, string(r), true)
			return err
		},
		Count:  meter.Delivered,
		Logger: log,
	})
	return hook, nil
}

// match adds to always the resources whose program yields anything but false and null. Programs run
// in a process of their own, as those of mappings do.
func match(ctx context.Context, always []shape.Resource, programs []mapping.Items, body []byte) (matched []shape.Resource, err error) {
	if len(programs) == 0 {
		return always, nil
	}
	programs = slices.Clone(programs)
	for i := range programs {
		programs[i].Items = [][]byte{body}
	}
	var worker mapping.Worker
	defer worker.Close()
	out, err := worker.Compose(ctx, &mapping.Composition{Preset: "custom", Parts: programs, Alone: true, MaxBytes: maxMatches})
	if err != nil {
		return nil, err
	}
	var yielded map[shape.Resource][]any
	if err := json.Unmarshal(out, &yielded); err != nil {
		return nil, err
	}
	for _, r := range shape.Resources() {
		if slices.Contains(always, r) || slices.ContainsFunc(yielded[r], func(v any) bool { return v != nil && v != false }) {
			matched = append(matched, r)
		}
	}
	return matched, nil
}

// maxMatches bounds what the programs yield on one delivery, in bytes.
const maxMatches = 4 << 20
