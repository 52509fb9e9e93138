package service

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"vitrine/cache"
	"vitrine/config"
	"vitrine/proxy/operator/metrics"
	"vitrine/proxy/operator/webhook"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// newHook makes the configured webhook, or nil.
func newHook(c config.Hook, store *cache.Store, meter *metrics.Meter, log *slog.Logger) http.Handler {
	if c.Secret.Reveal() == "" {
		return nil
	}
	programs := make(map[shape.Resource]*mapping.Program)
	for _, r := range shape.Resources() {
		if source := c.Match.Of(string(r)); source != "true" { // which is so whatever is sent, even if it is not JSON
			programs[r], _ = mapping.Compile("", "hook.match."+string(r), source) // as the configuration did
		}
	}
	return webhook.New(webhook.Options{
		Secret:          c.Secret.Reveal(),
		SignatureHeader: c.SignatureHeader,
		Match: func(ctx context.Context, body []byte) ([]shape.Resource, error) {
			matched, err := match(ctx, programs, body)
			if err != nil && len(matched) > 0 {
				log.WarnContext(ctx, "a program of the webhook cannot read a call, which purges other resources", "error", err)
				err = nil
			}
			return matched, err
		},
		Purge: func(ctx context.Context, r shape.Resource) error {
			_, err := store.Purge(ctx, string(r), true, "the webhook")
			return err
		},
		Count:  meter.Delivered,
		Logger: log,
	})
}

// match returns the resources that have no program, and those whose program yields anything but
// false and null, also if another one fails.
func match(ctx context.Context, programs map[shape.Resource]*mapping.Program, body []byte) (matched []shape.Resource, failed error) {
	const most = 100 // values of a program
	watched, stop := mapping.Watch(ctx, len(body))
	defer stop()
	delivery, unreadable := mapping.Decode("delivery", body)
	for _, r := range shape.Resources() {
		matches, err := programs[r] == nil, unreadable
		if !matches && err == nil {
			err = programs[r].Run(watched, "delivery", delivery, most, func(v any) error {
				matches = matches || v != nil && v != false
				return nil
			})
		}
		switch {
		case programs[r] == nil || matches && err == nil:
			matched = append(matched, r)
		case err != nil:
			failed = errors.Join(failed, err)
		}
	}
	return matched, failed
}
