package service

import (
	"errors"
	"fmt"
	"log/slog"

	"vitrine/config"
	"vitrine/config/source"
	"vitrine/upstream"
	"vitrine/upstream/exchange"
	"vitrine/upstream/list"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// NewUpstream makes the client of the configured CMS.
func NewUpstream(cfg config.Config, log *slog.Logger) (*upstream.Client, error) {
	o := upstream.Options{
		URL:      cfg.Upstream.URL.Reveal(),
		Timeout:  cfg.Upstream.Timeout,
		MaxBytes: int64(cfg.Upstream.MaxBytes), Place: cfg.Place,
		Options: exchange.Options{Authorization: cfg.Upstream.Authorization.Reveal(), Retries: cfg.Upstream.Retries, Logger: log},
	}
	o.Shared = cfg.Upstream.Shared
	o.Resources = make(map[shape.Resource]source.Resource)
	for _, r := range shape.Resources() {
		o.Resources[r] = cfg.Upstream.Resources.Of(string(r))
	}
	client, err := upstream.New(o)
	return client, refuseUpstream(cfg, err)
}

// refuseUpstream adds the place in the configuration to a mistake.
func refuseUpstream(cfg config.Config, err error) error {
	if wrong, ok := errors.AsType[*list.Error](err); ok {
		return cfg.RefuseBelow(wrong.Key, 0, wrong.Err)
	} else if program, ok := errors.AsType[*mapping.ProgramError](err); ok {
		return cfg.RefuseBelow(program.Program, program.Line, fmt.Errorf("want a jq program: %w", program.Where()))
	} else if err != nil {
		return cfg.Refuse("upstream.url", errors.Unwrap(err)) // which names the setting itself
	}
	return nil
}
