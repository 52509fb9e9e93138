package service

import (
	"os"
	"time"

	"vitrine/cmd/vitrine/loader"
	"vitrine/proxy/operator"
	"vitrine/proxy/verdict"
	"vitrine/upstream/sanitize"
	"vitrine/upstream/shape"
)

// status is the part of the status that follows from the configuration.
func (s *service) status() operator.Status {
	name, _ := os.Hostname()
	return operator.Status{
		Name:     name,
		Version:  s.Version,
		Started:  s.started,
		Public:   urlOf(s.cfg.Listen, s.public),
		Settings: s.cfg.Fingerprint(),
		Commands: s.commands(),
	}
}

// look returns the current state, for the meter, which asks once before there is a service.
func (p *process) look() verdict.Snapshot {
	if s := p.present.Load(); s != nil {
		return s.look()
	}
	return verdict.Snapshot{}
}

// look is the state at this moment. It makes no requests, so looking keeps nothing fresh.
func (s *service) look() verdict.Snapshot {
	breaker := s.client.Breaker()
	out := verdict.Snapshot{
		CMS: verdict.CMS{URL: s.client.String(), Source: s.client.Fingerprint(), BreakerOpen: breaker.Open(), Breaker: breaker},
		Redis: verdict.Redis{
			Address: s.store.Addr(), Embedded: s.local != nil, Prefix: s.store.Prefix(),
			Up: s.store.Up(), Answering: s.store.Answering(), Refusing: s.store.Refusing(),
			RoundTrip: operator.Milliseconds(s.store.RoundTrip()), PurgeBound: operator.Milliseconds(s.cfg.Redis.PurgeBound),
			BoundNeeded: operator.Milliseconds(s.store.Enough(s.store.RoundTrip())),
		},
		Documents:   make(map[shape.Resource]verdict.Document),
		Notify:      s.notifier.Status(),
		Connections: s.connections.Count(), MaxConnections: maxConnections(s.cfg.Limits),
	}
	out.Redis.Unanswered, out.Redis.Waits = s.store.Polls()
	if s.certificate != nil {
		_, out.CertificateEnds = s.certificate.Valid()
	}
	for _, r := range shape.Resources() {
		out.Documents[r] = s.known(r)
	}
	return out
}

// known is what is known of the document of a resource.
func (s *service) known(r shape.Resource) verdict.Document {
	now, cached := time.Now(), s.readers[r].Snapshot()
	out := verdict.Document{
		Route: r.Route(), Key: s.store.Prefix() + string(r), TTL: s.cfg.TTL.Of(string(r)).Seconds(),
		Failing: cached.Failures > 0, Failures: cached.Failures, Set: cached.Set, Seq: cached.Seq, Fetching: cached.Fetching, Refresh: s.cfg.Refresh, LastFetch: s.loaders[r].Last(),
		HeldBack: HeldBack(r, cached.HeldBack), Foreign: cached.Foreign, Suspicions: loader.Warnings(cached.Document).Standing(),
	}
	if cached.Err != nil {
		out.Cause = loader.Cause(cached.Err)
	}
	d := cached.Document
	if d == nil {
		return out
	}
	out.Held = &verdict.Held{
		ETag: d.ETag, Bytes: len(d.Body), Items: cached.Value.Items,
		FetchedAt: d.FetchedAt, ChangedAt: d.ChangedAt, FreshUntil: d.FreshUntil, ServableUntil: cached.ServableUntil,
		Age: d.AgeAt(now).Seconds(), Left: d.FreshUntil.Sub(now).Seconds(),
		Stale: !cached.Fresh, Coherent: cached.Coherent,
	}
	if d.RestoredBy != "" {
		out.Held.Restored = &verdict.Restored{Until: d.FreshUntil, By: sanitize.Clip(d.RestoredBy, 100)}
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
	add("Purge everything", "--scan", "--pattern", s.store.Prefix()+"*")
	all[len(all)-1].Command += " | xargs " + redisCLI(s.redisURL, "DEL")
	add("Show everything that Redis holds about the banners", "HGETALL", key(shape.Banners))
	return all
}

// document is the body of the cached copy of a resource, or nil.
func (s *service) document(r shape.Resource) []byte {
	if d := s.readers[r].Snapshot().Document; d != nil {
		return d.Body
	}
	return nil
}
