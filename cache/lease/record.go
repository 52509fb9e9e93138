package lease

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/upstream/guard"
)

// Content is what a hash holds.
type Content int

// What a hash holds.
const (
	Nothing Content = iota
	Placeholder
	Document
)

// A Generation is where Redis is in its history of a document: each fill and each placeholder raises
// the number, and a purge removes the hash of that number. The etag and the time of the fetch are
// part of it, since numbers repeat after a snapshot.
type Generation struct {
	Set       string // names the data set; "" if there is none
	Seq       int64
	Holds     Content
	ETag      string
	FetchedAt int64 // by Redis's clock, Unix milliseconds
}

// A Record is what a poll shows of a document and its lock record, at the server's time Now. Times
// are Unix milliseconds by that clock, 0 where missing or not a number, and not beyond the year 9999.
type Record struct {
	Generation
	Now, ChangedAt int64
	Size           int64 // of the body
	// FreshUntil is 0 after a soft purge, and negative once that has been acquired.
	FreshUntil int64
	Age        time.Duration // of the response when it was fetched
	Source     string
	RestoredBy string // who restored it, until its fresh_until; else ""
	// Lease is the lock owner's token and Left its remaining time; after a failed fetch Failure is set,
	// and Left is the backoff. Void ones are not read.
	Lease      string
	Failure    Failure
	Left       time.Duration
	LeaseUntil int64
	Expired    int64         // the number of the document that has reached its until, or 0
	Wanted     time.Duration // for how long a replica that cannot fetch wants another to
	Hold       guard.Record  // what is held back
	Released   guard.End     // why the last hold ended,
	ReleasedAt int64         // and with the document of which number
	Suspicions string        // the content warnings
	Accepted   bool          // an operator accepts that
	PurgedBy   string        // who purged the hash with the number Purged, if they said so
	Purged     int64
	Baseline   int64  // what was written before that counts no more for the guard
	Fleet      string // the fleet's source; "" where no lease was taken
	FleetSeen  int64  // when a replica of that source was last seen
	sources    string // that the lock record knows
}

// Foreign reports whether a replica of this source fetches nothing, since the fleet has another one. It
// is what foreign in prelude.lua says.
func (r *Record) Foreign(source string) bool {
	left := r.FleetSeen + SourceSilent.Milliseconds() - r.Now
	return r.Fleet != "" && r.Fleet != source && left > 0 && left <= SourceSilent.Milliseconds() && slices.Contains(strings.Fields(r.sources), source)
}

var documentFields, lockFields = []string{"set", "seq", "etag", "fetched_at", "fresh_until", "source", "changed_at", "restored_by", "suspicions", "age"},
	[]string{
		"set", "seq", "lease", "lease_until", "lease_length", "lease_seq", "until", "until_seq", "wanted_until",
		"held_seq", "held_since", "held_findings", "held_clock", "accepted", "purged_by", "released", "source", "source_seen", "sources", "baseline_since",
	}

// A Question is the commands about one document in a poll.
type Question struct {
	first, lock, again *redis.Cmd
	size               *redis.IntCmd
}

// Ask puts a question into a pipeline. Without MULTI: a full Redis refuses everything inside it.
func (h *Hash) Ask(ctx context.Context, p redis.Pipeliner) Question {
	return Question{
		first: fieldsOf(ctx, p, h.keys[0], documentFields), size: p.HStrLen(ctx, h.keys[0], "body"),
		lock: fieldsOf(ctx, p, h.keys[1], lockFields), again: fieldsOf(ctx, p, h.keys[0], documentFields),
	}
}

// fieldsOf reads fields of a hash. Not with go-redis's own HMGET, which takes any number for that of
// elements, and allocates for them: a reply of 16 bytes would end the process.
func fieldsOf(ctx context.Context, c interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
}, key string, fields []string) *redis.Cmd {
	args := []any{"hmget", key}
	for _, name := range fields {
		args = append(args, name)
	}
	return c.Do(ctx, args...)
}

// ErrTorn means that the document changed while it was read: that is no answer.
var ErrTorn = errors.New("redis: the document changed while it was read")

// Record is what the replies show at the server's time: what read in prelude.lua reads, and more.
func (q *Question) Record(now int64) (r Record, err error) {
	for _, c := range []redis.Cmder{q.first, q.size, q.lock, q.again} {
		if c.Err() != nil && !redis.HasErrorPrefix(c.Err(), "WRONGTYPE") { // MOVED, LOADING, NOPERM ...
			return r, c.Err()
		}
	}
	d, l := texts(q.first, documentFields), texts(q.lock, lockFields)
	if !slices.Equal(d, texts(q.again, documentFields)) || (q.first.Err() == nil) != (q.again.Err() == nil) {
		return r, ErrTorn
	}
	r = Record{Now: now, Generation: Generation{Set: l[0], Seq: count(l[1])}}
	set, seq, lease := d[0], count(d[1]), l[2]
	if r.Set == "" || r.Seq == 0 {
		r.Set, r.Seq, lease = set, seq, ""
	}
	if r.Set == "" || r.Seq == 0 {
		r.Set, r.Seq = "", 0
	}
	if seq > 0 && set == r.Set && seq == r.Seq {
		r.FreshUntil = date(cmp.Or(d[4], "1"))
		switch {
		case d[2] != "" && q.size.Val() > 0:
			r.document(d)
			r.Size = q.size.Val()
		case d[2] == "" && d[3] == "":
			r.Holds = Placeholder
		}
	}
	if lease != "" && r.Holds != Nothing && number(l[5]) == r.Seq {
		r.Lease, r.Failure, r.LeaseUntil, r.Left = lease, parseFailure(lease), number(l[3]), remaining(now, l[3], number(l[4]))
	}
	if until := number(l[6]); until > 0 && now >= until {
		r.Expired = number(l[7])
	}
	r.Wanted = remaining(now, l[8], longest)
	if since := number(l[10]); r.Holds == Document && number(l[9]) == r.Seq && since > 0 && since <= now {
		r.Hold, r.Accepted = guard.Record{Since: since, Findings: l[11], Clock: l[12]}, l[13] != ""
	}
	at, by, _ := strings.Cut(l[14], " ")
	r.Purged, r.PurgedBy = number(at), clip(by)
	at, why, _ := strings.Cut(l[15], " ")
	r.Released, r.ReleasedAt = guard.End(clip(why)), number(at)
	r.Fleet, r.FleetSeen, r.sources, r.Baseline = l[16], date(l[17]), l[18], date(l[19])
	return r, nil
}

// document reads the hash of a document.
func (r *Record) document(d []string) {
	r.Holds, r.ETag, r.FetchedAt, r.Source = Document, d[2], date(d[3]), d[5]
	r.ChangedAt, r.Suspicions = max(min(date(d[6]), r.Now), 0), d[8]
	r.Age = time.Duration(max(0, date(d[9]))) * time.Millisecond
	if d[7] != "" && r.FreshUntil > r.Now && r.FreshUntil <= r.Now+MostRestored.Milliseconds() {
		r.RestoredBy = clip(d[7])
	}
}

const longest = int64(time.Hour / time.Millisecond)

func remaining(now int64, till string, length int64) time.Duration {
	if left := number(till) - now; left > 0 && left <= length && length <= longest {
		return time.Duration(left) * time.Millisecond
	}
	return 0
}

// texts are the values of fields. One that is missing or no text is empty.
func texts(c *redis.Cmd, fields []string) []string {
	all := make([]string, len(fields))
	values, _ := c.Val().([]any)
	for i, v := range values {
		if i < len(all) {
			all[i], _ = v.(string)
		}
	}
	return all
}

// number is num in prelude.lua.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || len(s) > 15 || s[0] == '+' {
		return 0
	}
	return n
}

// count is a number of writes that leaves room for more.
func count(s string) int64 {
	if n := number(s); n > 0 && n < 1e14 {
		return n
	}
	return 0
}

// date is a time that can be written as one: not beyond the year 9999.
func date(s string) int64 { return min(number(s), 253402300799999) }

// clip bounds a text for people.
func clip(s string) string { return s[:min(len(s), 300)] }

// A Body is a document's body, with what is read with it.
type Body struct {
	ETag, UpstreamETag, UpstreamLastModified string
	Body                                     []byte
}

// Read reads the body.
func (h *Hash) Read(ctx context.Context, c *redis.Client) (b Body, err error) {
	fields := []string{"body", "etag", "upstream_etag", "upstream_last_modified"}
	got := fieldsOf(ctx, c, h.keys[0], fields)
	all := texts(got, fields)
	return Body{Body: []byte(all[0]), ETag: all[1], UpstreamETag: all[2], UpstreamLastModified: all[3]}, got.Err()
}

// Look reads everything, for a command.
func (h *Hash) Look(ctx context.Context, c *redis.Client) (r Record, b Body, err error) {
	for range 5 {
		p := c.Pipeline()
		q, clock := h.Ask(ctx, p), p.Time(ctx)
		if _, err = p.Exec(ctx); clock.Val().IsZero() { // not connected, or refused
			return r, b, errors.Join(err, errReply)
		}
		if r, err = q.Record(clock.Val().UnixMilli()); err != nil || r.Holds != Document {
			if errors.Is(err, ErrTorn) {
				continue
			}
			return r, b, err
		}
		if b, err = h.Read(ctx, c); err != nil || b.ETag == r.ETag {
			return r, b, err
		}
		err = ErrTorn
	}
	return r, b, err
}
