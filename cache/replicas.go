package cache

import (
	"context"
	_ "embed" // the script
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/announce.lua
var announceLua string

var announceScript = redis.NewScript(prelude + announceLua)

// replicasKey is the hash, under the prefix, in which the processes on one Redis report themselves.
const replicasKey = "replicas"

// A Replica is a process on the same Redis and prefix, as it last reported itself.
type Replica struct {
	// Name is the host, the process's number and a number that tells it from an earlier one.
	Name string
	// Self says that it is this process.
	Self bool
	// Age is how long ago it reported.
	Age time.Duration
	// Report is what it said.
	Report []byte
}

// Announce reports this process to the others, and returns all that have reported within lasting, this one included,
// by name. Redis forgets a process that does not report again within lasting, and all of them when none does.
func (s *Store) Announce(ctx context.Context, report []byte, lasting time.Duration) ([]Replica, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	reply, err := s.run(ctx, announceScript, replicasKey, s.holder, report, lasting.Milliseconds())
	if err != nil {
		return nil, fmt.Errorf("report this process: %w", err)
	}
	var all []Replica
	for i := 1; i+2 < len(reply); i += 3 {
		all = append(all, Replica{
			Name:   reply.text(i),
			Self:   reply.text(i) == s.holder,
			Age:    time.Duration(reply.int(0)-reply.int(i+1)) * time.Millisecond,
			Report: []byte(reply.text(i + 2)),
		})
	}
	slices.SortFunc(all, func(a, b Replica) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Withdraw takes this process off the list, for one that is about to end.
func (s *Store) Withdraw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.client.HDel(ctx, s.prefix+replicasKey, s.holder).Err(); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}
