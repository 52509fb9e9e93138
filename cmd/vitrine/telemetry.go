package main

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"sync/atomic"
	"time"

	"vitrine/cache"
	"vitrine/proxy/metrics"
	"vitrine/proxy/operator"
	"vitrine/upstream/shape"
)

// look returns the current state for the meter.
func (s *service) look() metrics.State {
	state := metrics.State{RedisUp: s.store.Up(), Tracking: s.store.Listening(), BreakerOpen: s.client.Breaker().Open()}
	for r, reader := range s.readers {
		held := reader.Snapshot()
		told := &state.Documents[metrics.TargetOf(r)]
		told.Failing = held.Failing
		if d := held.Document; d != nil {
			told.Held, told.ETag, told.Bytes, told.FreshUntil = true, d.ETag, len(d.Body), d.FreshUntil
		}
	}
	return state
}

const (
	// reportEvery is how often a replica reports itself to the others.
	reportEvery = 2 * time.Second
	// reportLasts is how long it is listed after its last report.
	reportLasts = 10 * time.Second
)

// A roster lists the replicas on the same Redis.
type roster struct {
	list atomic.Pointer[[]cache.Replica] // nil if unknown
}

// status is the roster for /api/status. An unreadable report still counts as a replica.
func (l *roster) status() operator.Replicas {
	out := operator.Replicas{List: []operator.Replica{}}
	list := l.list.Load()
	if list == nil {
		return out
	}
	out.Known = true
	for _, r := range *list {
		told := operator.Replica{Name: r.Name, Self: r.Self, Age: r.Age.Seconds()}
		if err := json.Unmarshal(r.Report, &told.Report); err != nil {
			told.Report = operator.Report{}
		}
		out.List = append(out.List, told)
	}
	return out
}

// report reports this replica until ctx ends, and then takes it off the list.
func (s *service) report(ctx context.Context) {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	refused := false
	for {
		var list *[]cache.Replica
		if s.store.Up() {
			all, err := s.reportOnce(ctx)
			if err == nil {
				list, refused = &all, false
			} else if ctx.Err() == nil && !refused && s.store.Ping(ctx) == nil { // an unreachable Redis is logged elsewhere
				refused = true
				s.log.WarnContext(ctx, "redis refuses this replica's report; the operator's page does not list the replicas", "error", err)
			}
		}
		s.roster.list.Store(list)
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

func (s *service) reportOnce(ctx context.Context) ([]cache.Replica, error) {
	info, _ := debug.ReadBuildInfo()
	told := operator.Report{Version: versionOf(version, info), Started: s.started, Source: s.client.Fingerprint(), ETags: map[shape.Resource]string{}}
	for r, reader := range s.readers {
		if d := reader.Snapshot().Document; d != nil {
			told.ETags[r] = d.ETag
		}
	}
	text, err := json.Marshal(told)
	if err != nil {
		return nil, err
	}
	return s.store.Announce(ctx, text, reportLasts)
}
