package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vitrine/cache"
	"vitrine/cmd/vitrine/service"
	"vitrine/config"
	"vitrine/upstream/shape"
)

// sources are where a command finds its settings.
func (c *call) sources() config.Sources {
	flags := maps.Clone(c.given)
	delete(flags, "config")
	return config.Sources{Flags: flags, Environ: c.environ, File: c.given["config"]}
}

// find reads the configuration of a command other than serve, which needs only the settings whose
// keys begin with these: mistakes about others are warnings, and reported as such. Without a
// configuration of its own it is that of the installed service, which is named on stderr.
func (c *call) find(keys ...string) (cfg config.Config, warned bool, err error) {
	sources := c.sources()
	if c.installed != "" && sources.Empty() {
		if err := c.useInstalled(&sources); err != nil {
			return cfg, false, err
		}
	}
	cfg, ignored, err := config.LoadOwn(sources, keys...)
	if err != nil || ignored == nil {
		return cfg, false, err
	}
	for line := range strings.Lines(ignored.Error()) {
		_, _ = fmt.Fprintln(c.stderr, "vitrine: warning:", strings.TrimSpace(line))
	}
	return cfg, true, nil
}

// onStore is the action of a command on documents in the store, which its arguments name, at most so
// many of them; none are all. It needs no setting but that of the store.
func (c *call) onStore(most int, do func(ctx context.Context, store *cache.Store, r shape.Resource) (any, error)) action {
	return func(ctx context.Context) (any, error) {
		some := shape.Resources()
		if len(c.args) > 0 {
			some = nil
		}
		for _, name := range c.args[:min(most, len(c.args))] {
			r, err := resourceNamed("resource (argument)", name)
			if err != nil {
				return nil, err
			}
			some = append(some, r)
		}
		cfg, warned, err := c.find("redis.")
		if err == nil && warned && cfg.IsDefault("redis.url") {
			err = cfg.Refuse("redis.url", errors.New("it may be what the mistake above is about"))
		}
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, redisTime)
		defer cancel()
		store, err := service.OpenStore(ctx, cfg)
		if err != nil {
			return nil, err
		}
		defer func() { _ = store.Close() }() // what was to be done is
		var all []any
		for _, r := range some {
			value, err := do(ctx, store, r)
			if _, isUse := errors.AsType[usageError](err); isUse {
				return nil, err
			} else if err != nil {
				return all, fmt.Errorf("%s %s at %s: %w", c.name, r, store.Addr(), err)
			}
			if body, ok := value.(document); ok {
				return body, nil
			}
			all = append(all, value)
		}
		return all, nil
	}
}

// useInstalled adds the file and the environment of the installed service, if there is one.
func (c *call) useInstalled(to *config.Sources) error {
	file, env := filepath.Join(c.installed, "vitrine.yaml"), filepath.Join(c.installed, "vitrine.env")
	var used []string
	for _, path := range []string{file, env} {
		content, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return wrongUse("%w: the installed service's configuration cannot be read; use sudo, or name another file with --config", err)
		case path == file:
			to.File = file
		default:
			to.Environ = slices.Concat(to.Environ, variables(content))
		}
		used = append(used, path)
	}
	if len(used) > 0 {
		_, _ = fmt.Fprintln(c.stderr, "vitrine: using "+strings.Join(used, " and "))
	}
	return nil
}

// variables reads the form of systemd's EnvironmentFile (systemd.exec(5)): NAME=VALUE, also quoted,
// and comments.
func variables(content []byte) (out []string) {
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.ContainsAny(line[:1], "#;") {
			continue
		}
		value = strings.TrimSpace(value)
		if n := len(value); n > 1 && value[0] == value[n-1] && strings.ContainsAny(value[:1], `"'`) {
			value = value[1 : n-1]
		}
		out = append(out, strings.TrimSpace(name)+"="+value)
	}
	return out
}
