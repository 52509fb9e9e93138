package main

import (
	"context"
	"encoding/json"
	"os"
	"os/user"
	"slices"
	"time"

	"vitrine/cache"
	"vitrine/upstream/shape"
)

// A purgeNote names the author of a purge, whom the purge itself does not name. vitrine purge
// leaves it in the list of replicas, where each replica finds it when it receives the purge.
type purgeNote struct {
	By      string           `json:"by"` // USER@HOST; empty in the report of a replica
	Purging []shape.Resource `json:"purging"`
}

// noteLasts is how long after the note a purge is taken for the one that it names.
const noteLasts = 2 * time.Second

// leaveNote leaves a note. Without the right to it the purge is made all the same.
func leaveNote(ctx context.Context, store *cache.Store, purging []shape.Resource) {
	if note, err := json.Marshal(purgeNote{By: author(), Purging: purging}); err == nil {
		_ = store.Announce(ctx, note, reportLasts)
	}
}

// author is who runs this command: USER@HOST.
func author() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

// noteOf is the note in a replica's report; the zero value if there is none.
func noteOf(r cache.Replica) (note purgeNote) {
	if json.Unmarshal(r.Report, &note) != nil {
		return purgeNote{}
	}
	return note
}

// logAuthor logs who made a purge that was received now, if they left a note.
func (s *service) logAuthor(ctx context.Context, purged shape.Resource) {
	ctx, cancel := context.WithTimeout(ctx, rosterTimeout)
	defer cancel()
	list, err := s.store.Replicas(ctx, reportLasts)
	if err != nil {
		return // that Redis is unreachable is said elsewhere
	}
	for _, r := range list {
		if note := noteOf(r); note.By != "" && r.Age < noteLasts && slices.Contains(note.Purging, purged) {
			s.log.InfoContext(ctx, "purge made by vitrine purge", "resource", purged, "by", note.By)
		}
	}
}

// events count what the store reports. While two services run, both receive each purge: the present
// one counts it.
func (s *service) events() cache.Events {
	return cache.Events{
		Purged: func(key, kind string) {
			if !s.isPresent() {
				return
			}
			s.meter.Purged(key, kind)
			select {
			case s.purges <- shape.Resource(key):
			default: // nobody has time to find the author
			}
		},
		Seen: s.saw, Fetched: s.meter.Fetched, Incoherent: s.meter.Incoherent, Damaged: s.meter.Damaged, Held: s.logHeld,
	}
}

// saw passes on what the store sees of a resource, to the notifier and to describeChanges.
func (s *service) saw(sight cache.Sight) {
	s.notifier.Seen(sight)
	if sight.Document == nil {
		return
	}
	select {
	case s.documents <- sight:
	default: // nobody has time to compare it
	}
}

// describeChanges notes and logs what changed with each document, until ctx ends. The last one of
// each is kept beyond a purge, to be compared with the next.
func (s *service) describeChanges(ctx context.Context) {
	last := map[string]*cache.Document{}
	for {
		select {
		case <-ctx.Done():
			return
		case sight := <-s.documents:
			before, r := last[sight.Key], shape.Resource(sight.Key)
			if last[sight.Key] = sight.Document; before == nil || before.ETag == sight.Document.ETag || !s.isPresent() {
				continue
			}
			if what := s.compared.of(r, before, sight.Document).String(); what != "" {
				s.meter.Changed(r, what)
				s.log.InfoContext(ctx, "document changed", "resource", r, "changes", what)
			}
		}
	}
}
