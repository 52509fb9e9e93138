package lease

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Roster is the hash in which the processes on one Redis report themselves.
type Roster struct {
	name, self string
	keys       []string
}

// NewRoster is the roster under prefix, in which this process calls itself self.
func NewRoster(prefix, self string) *Roster {
	return &Roster{name: "replicas", self: self, keys: []string{prefix + "replicas"}}
}

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

// Write reports this process. Redis forgets a process that does not report again within lasting.
func (r *Roster) Write(ctx context.Context, c redis.Scripter, text []byte, lasting time.Duration) error {
	_, err := report.run(ctx, c, r.name, r.keys, r.self, text, lasting.Milliseconds())
	return err
}

// Read lists the reports of the last lasting, by name.
func (r *Roster) Read(ctx context.Context, c redis.Scripter, lasting time.Duration) (all []Replica, err error) {
	got, err := roster.run(ctx, c, r.name, r.keys, lasting.Milliseconds())
	for i := 1; i+2 < len(got); i += 3 {
		all = append(all, Replica{Name: got.text(i), Self: got.text(i) == r.self, Age: time.Duration(got.int(0)-got.int(i+1)) * time.Millisecond, Report: []byte(got.text(i + 2))})
	}
	slices.SortFunc(all, func(a, b Replica) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// Withdraw takes the process off the list.
func (r *Roster) Withdraw(ctx context.Context, c redis.Cmdable) error {
	return c.HDel(ctx, r.keys[0], r.self).Err()
}
