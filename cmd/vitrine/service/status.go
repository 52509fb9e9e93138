package main

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"vitrine/cache"
	"vitrine/proxy/operator"
	"vitrine/proxy/operator/metrics"
	"vitrine/upstream/plain"
	"vitrine/upstream/shape"
)

// status returns the status of this process. It makes no requests, so looking keeps nothing fresh.
func (s *service) status() operator.Status {
	now := time.Now()
	out := operator.Status{
		Version:  release(),
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
			RoundTrip: milliseconds(s.store.RoundTrip()), PurgeBound: milliseconds(s.cfg.Redis.PurgeBound),
			BoundNeeded: milliseconds(s.store.Enough(s.store.RoundTrip())),
		},
		Resources: make(map[shape.Resource]operator.Resource),
		Replicas:  s.replicas(context.Background()),
		Commands:  s.commands(),
		Notify:    s.notifier.Status(),
	}
	for _, r := range shape.Resources() {
		held := s.readers[r].Snapshot()
		resource := operator.Resource{
			Route:     r.Route(),
			Key:       s.cfg.Redis.Prefix + string(r),
			TTL:       s.cfg.TTL.Of(string(r)).Seconds(),
			Refresh:   s.cfg.Refresh,
			Failing:   held.Failing,
			Fetching:  held.Fetching,
			LastFetch: s.loaders[r].last.Load(),

			HeldBack:   heldBack(held.HeldBack, acceptWith(s.cfg, s.store.Addr(), r)),
			Suspicions: suspicionsOf(held.Document),
		}
		if d := held.Document; d != nil {
			resource.Held = &operator.Held{
				ETag: d.ETag, Bytes: len(d.Body), Items: held.Value.Items,
				FetchedAt: d.FetchedAt, ChangedAt: d.ChangedAt, FreshUntil: d.FreshUntil, ServableUntil: held.ServableUntil,
				Age: now.Sub(d.FetchedAt).Seconds(), Left: d.FreshUntil.Sub(now).Seconds(),
				Stale: held.State != cache.StateFresh, Coherent: held.Coherent,
			}
			if now.Before(d.PinnedUntil) {
				resource.Held.Pinned = &operator.Pin{Until: d.PinnedUntil, By: plain.Clip(d.PinnedBy, 100)}
			}
		} else if resource.LastFetch != nil {
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
	add("Serve an earlier version of the banners, which vitrine history banners lists, for two hours", cli+" HSET "+key(shape.Banners)+" restore VERSION")
	add("Purge everything", cli+" --scan --pattern "+quoted(s.store.Prefix()+"*")+" | xargs "+cli+" DEL")
	add("Show everything that Redis holds about the banners", cli+" HGETALL "+key(shape.Banners))
	return all
}

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[\w:./@%+-]+$`)

// quoted is a word quoted for a shell.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
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
	state := metrics.State{
		RedisUp: s.store.Up(), Tracking: s.store.Listening(), Refusing: s.store.Refusing() != "", RoundTrip: s.store.RoundTrip(),
		Connections: s.proxy.Connections(), MaxConnections: maxConnections(s.cfg.Limits),
	}
	state.Pending = map[string]int{}
	for _, t := range s.notifier.Status() {
		state.Pending[t.Name] = t.Pending
	}
	if s.certificate != nil {
		state.CertificateEnds = s.certificate.NotAfter()
	}
	breaker := s.client.Breaker()
	state.BreakerOpen = breaker.Open()
	for r, reader := range s.readers {
		held := reader.Snapshot()
		document := &state.Documents[metrics.TargetOf(r)]
		document.Failing, document.Suspicions = held.Failing, suspicionsOf(held.Document)
		if h := held.HeldBack; h != nil {
			document.HeldBack = h.Reason
		}
		if d := held.Document; d != nil {
			state.Elsewhere = state.Elsewhere || !held.Failing && d.FetchedAt.After(breaker.Opened) && !time.Now().Before(d.PinnedUntil)
			document.Held, document.ETag, document.Bytes, document.FreshUntil = true, d.ETag, len(d.Body), d.FreshUntil
		}
	}
	return state
}

const (
	// reportEvery is how often a replica reports itself to the others.
	reportEvery = 4 * time.Second
	// reportLasts is how long it is listed after its last report.
	reportLasts = 10 * time.Second
	// rosterTimeout is how long whoever looks at the status waits for the list of them.
	rosterTimeout = time.Second
)

// replicas are those on the same Redis, for /api/status. An unreadable report still counts as a
// replica.
func (s *service) replicas(ctx context.Context) operator.Replicas {
	out := operator.Replicas{List: []operator.Replica{}}
	if !s.store.Up() {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, rosterTimeout)
	defer cancel()
	list, err := s.store.Replicas(ctx, reportLasts)
	if err != nil {
		return out
	}
	out.Known = true
	for _, r := range list {
		if noteOf(r).By != "" {
			continue
		}
		replica := operator.Replica{Name: r.Name, Self: r.Self, Age: r.Age.Seconds()}
		if err := json.Unmarshal(r.Report, &replica.Report); err != nil {
			replica.Report = operator.Report{}
		}
		out.List = append(out.List, replica)
	}
	return out
}

// report reports this replica until ctx ends, and then takes it off the list.
func (s *service) report(ctx context.Context) {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	refused := false
	for {
		if s.store.Up() {
			err := s.reportOnce(ctx)
			if err != nil && ctx.Err() == nil && !refused && s.store.Ping(ctx) == nil { // that Redis is unreachable is said elsewhere
				s.log.WarnContext(ctx, "redis refused this replica's report; the operator's page does not list it", "error", err)
			}
			refused = err != nil
		}
		select {
		case <-ctx.Done():
			if !s.store.Up() {
				return
			}
			if err := s.store.Withdraw(context.WithoutCancel(ctx)); err != nil {
				s.log.DebugContext(ctx, "cannot remove this replica from the list", "error", err)
			}
			return
		case <-ticker.C:
		case purged := <-s.purges:
			s.logAuthor(ctx, purged)
		}
	}
}

func (s *service) reportOnce(ctx context.Context) error {
	report := operator.Report{Version: release(), Started: s.started, Source: s.client.Fingerprint(), ETags: map[shape.Resource]string{}}
	for r, reader := range s.readers {
		if d := reader.Snapshot().Document; d != nil {
			report.ETags[r] = d.ETag
		}
	}
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	return s.store.Announce(ctx, text, reportLasts)
}
