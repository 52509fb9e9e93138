package main

import (
	"context"
	"runtime/debug"
	"strings"
	"time"

	"vitrine/cache"
	"vitrine/proxy/operator"
	"vitrine/upstream/shape"
)

// status returns the status of this process. It makes no requests, so looking keeps nothing fresh.
func (s *service) status() operator.Status {
	now := time.Now()
	info, _ := debug.ReadBuildInfo()
	out := operator.Status{
		Version: versionOf(version, info),
		Started: s.started,
		Public:  urlOf(s.cfg.Listen, s.public),
		Upstream: operator.Upstream{
			URL: s.client.String(), Source: s.client.Fingerprint(),
			BreakerOpen: s.client.Breaker().Open(), Breaker: s.client.Breaker(),
		},
		Redis: operator.Redis{
			Address: s.store.Addr(), Embedded: s.local != nil, Prefix: s.store.Prefix(),
			Up: s.store.Up(), Listening: s.store.Listening(), Refusing: s.store.Refusing(),
			RoundTrip: milliseconds(s.store.RoundTrip()), PurgeBound: milliseconds(s.cfg.Redis.PurgeBound),
			BoundNeeded: milliseconds(s.store.Enough(s.store.RoundTrip())),
		},
		Resources: make(map[shape.Resource]operator.Resource),
		Replicas:  s.replicas(context.Background()),
		Commands:  s.commands(),
	}
	for _, r := range shape.Resources() {
		held := s.readers[r].Snapshot()
		resource := operator.Resource{
			State:     held.State,
			Route:     routes[r],
			Key:       s.cfg.Redis.Prefix + string(r),
			TTL:       s.cfg.TTL.Of(string(r)).Seconds(),
			Held:      operator.HeldOf(held, now),
			Failing:   held.Failing,
			Fetching:  held.Fetching,
			LastFetch: s.loaders[r].lastFetch(),
		}
		if resource.Held == nil && resource.LastFetch != nil {
			resource.Error = resource.LastFetch.Error
		}
		out.Resources[r] = resource
	}
	return out
}

// commands are the commands to inspect and purge this Redis.
func (s *service) commands() []operator.Command {
	cli := redisCLI(s.cfg.Redis.URL.Reveal(), s.store.Addr())
	key := func(r shape.Resource) string { return quoted(s.store.Prefix() + string(r)) }
	var all []operator.Command
	add := func(does, command string) { all = append(all, operator.Command{Does: does, Command: command}) }
	for _, r := range shape.Resources() {
		add("Purge the "+string(r)+" on every replica, at once", cli+" DEL "+key(r))
	}
	add("Refresh the banners, and serve the old ones until then (a soft purge)", cli+" HSET "+key(shape.Banners)+" fresh_until 0")
	add("Purge everything", cli+" --scan --pattern "+quoted(s.store.Prefix()+"*")+" | xargs "+cli+" DEL")
	add("Show everything that Redis holds about the banners", cli+" HGETALL "+key(shape.Banners))
	return all
}

// quoted is a word quoted for a shell.
func quoted(word string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(":._-/@%+", r)
	}
	if strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// document is the copy held of a resource, or nil.
func (s *service) document(r shape.Resource) *cache.Document {
	return s.readers[r].Snapshot().Document
}

// checks report for /readyz whether each resource can be answered with 200.
func (s *service) checks() map[string]func(context.Context) error {
	checks := make(map[string]func(context.Context) error)
	for r, reader := range s.readers {
		checks[string(r)] = func(ctx context.Context) error {
			_, err := reader.Get(ctx)
			return err
		}
	}
	return checks
}
