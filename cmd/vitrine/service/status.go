package service

import (
	"context"
	"time"

	"vitrine/proxy/operator"
	"vitrine/proxy/operator/metrics"
	"vitrine/upstream/plain"
	"vitrine/upstream/shape"
)

// status returns the status of this process. It makes no requests, so looking keeps nothing fresh.
func (s *service) status() operator.Status {
	out := operator.Status{
		Version:  s.Version,
		Started:  s.started,
		Public:   urlOf(s.cfg.Listen, s.public),
		Settings: s.cfg.Fingerprint(),
		Upstream: operator.Upstream{
			URL: s.client.String(), Source: s.client.Fingerprint(),
			BreakerOpen: s.client.Breaker().Open(), Breaker: s.client.Breaker(),
		},
		Redis: operator.Redis{
			Address: s.store.Addr(), Embedded: s.local != nil, Prefix: s.store.Prefix(),
			Up: s.store.Up(), Listening: s.store.Listening(), Refusing: s.store.Refusing(),
			RoundTrip: operator.Milliseconds(s.store.RoundTrip()), PurgeBound: operator.Milliseconds(s.cfg.Redis.PurgeBound),
			BoundNeeded: operator.Milliseconds(s.store.Enough(s.store.RoundTrip())),
		},
		Resources: make(map[shape.Resource]operator.Resource),
		Replicas:  s.roster.replicas(context.Background()),
		Commands:  s.commands(),
		Notify:    s.notifier.Status(),
	}
	for _, r := range shape.Resources() {
		resource := operator.Resource{
			Route:     r.Route(),
			Key:       s.store.Prefix() + string(r),
			TTL:       s.cfg.TTL.Of(string(r)).Seconds(),
			Refresh:   s.cfg.Refresh,
			LastFetch: s.loaders[r].last.Load(),
			Document:  s.held(r),
		}
		if resource.Held == nil && resource.LastFetch != nil {
			resource.Error = resource.LastFetch.Error
		}
		out.Resources[r] = resource
	}
	return out
}

// held is what is known of the document of a resource.
func (s *service) held(r shape.Resource) metrics.Document {
	now, held := time.Now(), s.readers[r].Snapshot()
	out := metrics.Document{
		Failing: held.Failing, Fetching: held.Fetching, HeldBack: heldBack(s.redisURL, s.cfg.Redis.Prefix, r, held.HeldBack), Suspicions: suspicionsOf(held.Document),
	}
	if d := held.Document; d != nil {
		out.Held = &metrics.Held{
			ETag: d.ETag, Bytes: len(d.Body), Items: held.Value.Items,
			FetchedAt: d.FetchedAt, ChangedAt: d.ChangedAt, FreshUntil: d.FreshUntil, ServableUntil: held.ServableUntil,
			Age: now.Sub(d.FetchedAt).Seconds(), Left: d.FreshUntil.Sub(now).Seconds(),
			Stale: !held.Fresh, Coherent: held.Coherent,
		}
		if now.Before(d.PinnedUntil) {
			out.Held.Pinned = &metrics.Pin{Until: d.PinnedUntil, By: plain.Clip(d.PinnedBy, 100)}
		}
	}
	return out
}

// commands are the commands to inspect and purge this Redis.
func (s *service) commands() (all []operator.Command) {
	add := func(does string, words ...string) {
		all = append(all, operator.Command{Does: does, Command: redisCLI(s.redisURL, words...)})
	}
	key := func(r shape.Resource) string { return s.store.Prefix() + string(r) }
	for _, r := range shape.Resources() {
		add("Purge the "+string(r)+" on every replica, at once", "DEL", key(r))
	}
	add("Refresh the banners, and serve the old ones until then (a soft purge)", "HSET", key(shape.Banners), "fresh_until", "0")
	add("Serve an earlier version of the banners, which vitrine history banners lists, for two hours", "HSET", key(shape.Banners), "restore", "VERSION")
	add("Purge everything", "--scan", "--pattern", s.store.Prefix()+"*")
	all[len(all)-1].Command += " | xargs " + redisCLI(s.redisURL, "DEL")
	add("Show everything that Redis holds about the banners", "HGETALL", key(shape.Banners))
	return all
}

// document is the body of the copy held of a resource, or nil.
func (s *service) document(r shape.Resource) []byte {
	if d := s.readers[r].Snapshot().Document; d != nil {
		return d.Body
	}
	return nil
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

// look returns the current state for the meter.
func (s *service) look() metrics.State {
	breaker := s.client.Breaker()
	state := metrics.State{
		BreakerOpen: breaker.Open(), BreakerOpened: breaker.Opened, Pending: map[string]int{}, Documents: map[shape.Resource]metrics.Document{},
		RedisUp: s.store.Up(), Tracking: s.store.Listening(), Refusing: s.store.Refusing() != "", RoundTrip: s.store.RoundTrip(),
		Connections: s.proxy.Connections(), MaxConnections: maxConnections(s.cfg.Limits),
	}
	for _, t := range s.notifier.Status() {
		state.Pending[t.Name] = t.Pending
	}
	if s.certificate != nil {
		_, state.CertificateEnds = s.certificate.Valid()
	}
	for _, r := range shape.Resources() {
		state.Documents[r] = s.held(r)
	}
	return state
}

// reported is what this replica tells the others.
func (s *service) reported() operator.Report {
	report := operator.Report{Version: s.Version, Started: s.started, Source: s.client.Fingerprint(), ETags: map[shape.Resource]string{}}
	for r, reader := range s.readers {
		if d := reader.Snapshot().Document; d != nil {
			report.ETags[r] = d.ETag
		}
	}
	return report
}
