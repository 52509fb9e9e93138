package lease

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// RosterKey is the name of the hash in which the processes on one Redis and prefix report
// themselves, each under a name of its own.
const RosterKey = "replicas"

// A Replica is a process on the same Redis and prefix, as it last reported itself.
type Replica struct {
	// Name is the host, the process id, and a number that distinguishes it from an earlier process.
	Name string
	// Self reports whether it is this process.
	Self bool
	// Age is how long ago it reported.
	Age time.Duration
	// Report is its report.
	Report []byte
}

// Announce reports the process self. Redis forgets one that does not report again within lasting.
func Announce(ctx context.Context, c redis.Scripter, prefix, self string, text []byte, lasting time.Duration) error {
	_, err := roster.run(ctx, c, RosterKey, []string{prefix + RosterKey}, lasting.Milliseconds(), self, text)
	return err
}

// Replicas lists the reports of the last lasting, by name.
func Replicas(ctx context.Context, c redis.Scripter, prefix, self string, lasting time.Duration) (all []Replica, err error) {
	got, err := roster.run(ctx, c, RosterKey, []string{prefix + RosterKey}, lasting.Milliseconds())
	for i := 1; i+2 < len(got); i += 3 {
		all = append(all, Replica{Name: got.text(i), Self: got.text(i) == self, Age: time.Duration(got.int(0)-got.int(i+1)) * time.Millisecond, Report: []byte(got.text(i + 2))})
	}
	slices.SortFunc(all, func(a, b Replica) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// Withdraw takes the process self off the list.
func Withdraw(ctx context.Context, c redis.Cmdable, prefix, self string) error {
	return c.HDel(ctx, prefix+RosterKey, self).Err()
}
