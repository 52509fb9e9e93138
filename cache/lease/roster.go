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
	name string
	keys []string
}

// NewRoster is the roster under prefix.
func NewRoster(prefix string) *Roster {
	return &Roster{name: "replicas", keys: []string{prefix + "replicas"}}
}

// A Report is a process's last report, Age ago.
type Report struct {
	Name string
	Age  time.Duration
	Text []byte
}

// Write reports this process. Redis forgets a process that does not report again within lasting.
func (r *Roster) Write(ctx context.Context, c redis.Scripter, name string, text []byte, lasting time.Duration) error {
	_, err := report.run(ctx, c, r.name, r.keys, name, text, lasting.Milliseconds())
	return err
}

// Read lists the reports of the last lasting, by name.
func (r *Roster) Read(ctx context.Context, c redis.Scripter, lasting time.Duration) ([]Report, error) {
	got, err := roster.run(ctx, c, r.name, r.keys, lasting.Milliseconds())
	if err != nil {
		return nil, err
	}
	var all []Report
	for i := 1; i+2 < len(got); i += 3 {
		all = append(all, Report{Name: got.text(i), Age: time.Duration(got.int(0)-got.int(i+1)) * time.Millisecond, Text: []byte(got.text(i + 2))})
	}
	slices.SortFunc(all, func(a, b Report) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Withdraw takes the process off the list.
func (r *Roster) Withdraw(ctx context.Context, c redis.Cmdable, name string) error {
	return c.HDel(ctx, r.keys[0], name).Err()
}
