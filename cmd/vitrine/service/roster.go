package service

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"vitrine/cache"
	"vitrine/proxy/operator"
	"vitrine/upstream/shape"
)

const (
	// reportEvery is how often a replica reports itself to the others.
	reportEvery = 4 * time.Second
	// reportLasts is how long it is listed after its last report.
	reportLasts = 10 * time.Second
	// rosterTimeout is how long whoever looks at the status waits for the list of them.
	rosterTimeout = time.Second
	// noteLasts is how long after a note a purge is taken for the one that it names.
	noteLasts = 2 * time.Second
)

// A purgeNote names the author of a purge, whom the purge itself does not name. vitrine purge
// leaves it in the list of replicas, where each replica finds it when it receives the purge.
type purgeNote struct {
	By      string           `json:"by"` // USER@HOST; empty in the report of a replica
	Purging []shape.Resource `json:"purging"`
}

// LeaveNote leaves word of who is about to purge. Without the right to it the purge is made all the
// same.
func LeaveNote(ctx context.Context, store *cache.Store, by string, purging []shape.Resource) {
	if note, err := json.Marshal(purgeNote{By: by, Purging: purging}); err == nil {
		_ = store.Announce(ctx, note, reportLasts)
	}
}

// noteOf is the note in a replica's report; the zero value if there is none.
func noteOf(r cache.Replica) (note purgeNote) {
	if json.Unmarshal(r.Report, &note) != nil {
		return purgeNote{}
	}
	return note
}

// A roster is the list of replicas on one Redis, in which each reports itself.
type roster struct {
	store  *cache.Store
	log    *slog.Logger
	report func() operator.Report
	purges chan shape.Resource // received, whose authors are looked for
}

// received looks for the author of a purge.
func (r *roster) received(purged shape.Resource) {
	select {
	case r.purges <- purged:
	default: // nobody has time
	}
}

// run reports this replica until ctx ends, and then takes it off the list.
func (r *roster) run(ctx context.Context) {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	refused := false
	for {
		if r.store.Up() {
			err := r.announce(ctx)
			if err != nil && ctx.Err() == nil && !refused && r.store.Ping(ctx) == nil { // that Redis is unreachable is said elsewhere
				r.log.WarnContext(ctx, "redis refused this replica's report; the operator's page does not list it", "error", err)
			}
			refused = err != nil
		}
		select {
		case <-ctx.Done():
			if !r.store.Up() {
				return
			}
			if err := r.store.Withdraw(context.WithoutCancel(ctx)); err != nil {
				r.log.DebugContext(ctx, "cannot remove this replica from the list", "error", err)
			}
			return
		case <-ticker.C:
		case purged := <-r.purges:
			r.logAuthor(ctx, purged)
		}
	}
}

func (r *roster) announce(ctx context.Context) error {
	text, err := json.Marshal(r.report())
	if err != nil {
		return err
	}
	return r.store.Announce(ctx, text, reportLasts)
}

// list is the list, and whether Redis gave it.
func (r *roster) list(ctx context.Context) (all []cache.Replica, known bool) {
	ctx, cancel := context.WithTimeout(ctx, rosterTimeout)
	defer cancel()
	all, err := r.store.Replicas(ctx, reportLasts)
	return all, err == nil // that Redis is unreachable is said elsewhere
}

// logAuthor logs who made a purge that was received now, if they left a note.
func (r *roster) logAuthor(ctx context.Context, purged shape.Resource) {
	all, _ := r.list(ctx)
	for _, replica := range all {
		if note := noteOf(replica); note.By != "" && replica.Age < noteLasts && slices.Contains(note.Purging, purged) {
			r.log.InfoContext(ctx, "purge made by vitrine purge", "resource", purged, "by", note.By)
		}
	}
}

// replicas are those on the same Redis, for /api/status. An unreadable report still counts as a
// replica.
func (r *roster) replicas(ctx context.Context) operator.Replicas {
	out := operator.Replicas{List: []operator.Replica{}}
	if !r.store.Up() {
		return out
	}
	all, known := r.list(ctx)
	out.Known = known
	for _, other := range all {
		if noteOf(other).By != "" {
			continue
		}
		replica := operator.Replica{Name: other.Name, Self: other.Self, Age: other.Age.Seconds()}
		if err := json.Unmarshal(other.Report, &replica.Report); err != nil {
			replica.Report = operator.Report{}
		}
		out.List = append(out.List, replica)
	}
	return out
}
