package main

import (
	"context"
	"log/slog"

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
	match := make(map[shape.Resource]func(context.Context, []byte) (bool, error))
	for _, r := range shape.Resources() {
		source := c.Match.Of(string(r))
		if source == "true" { // whatever is sent, even if it is not JSON
			continue
		}
		key := "hook.match." + string(r)
		program, err := mapping.Compile(key, source)
		if err != nil {
			return nil, cfg.Refuse(key, err)
		}
		match[r] = predicate(program)
	}
	return webhook.New(webhook.Options{
		Secret:          c.Secret.Reveal(),
		SignatureHeader: c.SignatureHeader,
		Match:           match,
		Purge: func(ctx context.Context, r shape.Resource) error {
			_, err := store.Purge(ctx, string(r), true)
			return err
		},
		Count:  meter.Delivered,
		Logger: log,
	})
}

// predicate reports whether program yields anything but false and null.
func predicate(program *mapping.Program) func(context.Context, []byte) (bool, error) {
	return func(ctx context.Context, body []byte) (bool, error) {
		input, err := mapping.Decode("delivery", body)
		if err != nil {
			return false, err
		}
		matched := false
		err = program.Run(ctx, "delivery", input, mapping.Limits{Values: 100}, func(v any) error {
			matched = matched || v != nil && v != false
			return nil
		})
		return matched, err
	}
}
