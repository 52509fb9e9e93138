package main

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"time"

	"vitrine/proxy/metrics"
	"vitrine/proxy/operator"
	"vitrine/upstream/shape"
)

// look returns the current state for the meter.
func (s *service) look() metrics.State {
	state := metrics.State{RedisUp: s.store.Up(), Tracking: s.store.Listening(), Refusing: s.store.Refusing() != "", RoundTrip: s.store.RoundTrip(), BreakerOpen: s.client.Breaker().Open()}
	for r, reader := range s.readers {
		held := reader.Snapshot()
		document := &state.Documents[metrics.TargetOf(r)]
		document.Failing = held.Failing
		if d := held.Document; d != nil {
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
		}
	}
}

func (s *service) reportOnce(ctx context.Context) error {
	info, _ := debug.ReadBuildInfo()
	report := operator.Report{Version: versionOf(version, info), Started: s.started, Source: s.client.Fingerprint(), ETags: map[shape.Resource]string{}}
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
