// Package lease has the three hashes of one document in Redis: the document, its lock record, and its
// history. It has the scripts that write them, and [Question], which reads the first two.
//
// One fetch goes through it in this order:
//
//  1. a [Question] in a poll shows that the document is due;
//  2. [Acquire] rides in front of the next poll; it takes the lease for the hash of one number, and
//     makes a placeholder if the hash is missing;
//  3. the replica fetches, and extends its lease with [Prolong];
//  4. [Hash.Fill] writes the document if the lease is still there: not if the hash is gone or another
//     (lost: a hard purge, or another owner), and as stale if fresh_until has changed (soft: a soft
//     purge). [Release] or [Hash.Hold] end the lease instead.
//
// Each step is one script, and therefore atomic. What became of it is learned from the next poll.
package lease

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/upstream/guard"
)

const (
	// SourceRenews is how often its replicas renew the fleet's source in the lock record.
	SourceRenews = 20 * time.Second
	// SourceSilent is for how long they must not have, before another source takes over that the record
	// knows already.
	SourceSilent = time.Minute
	// MostRestored is how long a restored document can be fresh.
	MostRestored = 30 * 24 * time.Hour
)

// A Hash is the document of one resource, its lock record, and its history.
type Hash struct{ keys []string }

// New is the hash of the resource under prefix.
func New(prefix, resource string) *Hash {
	key := prefix + resource
	return &Hash{[]string{key, Lock(prefix, resource), prefix + "history:{" + key + "}"}}
}

// Lock is the key of the lock record of a resource.
func Lock(prefix, resource string) string { return prefix + "lease:{" + prefix + resource + "}" }

// Key is the key of the document.
func (h *Hash) Key() string { return h.keys[0] }

// run runs a script of lua/.
func (h *Hash) run(ctx context.Context, c redis.Scripter, name string, args ...any) (reply, error) {
	r, err := run(ctx, c, scripts[name], h.keys, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// A Ride is a script that is sent in front of a poll.
type Ride struct {
	Token   string // of the lease
	Acquire bool   // it is an acquire: it is sent once only
	script  string
	args    []any
}

// Send puts it into a pipeline.
func (r *Ride) Send(ctx context.Context, p redis.Pipeliner, h *Hash) *redis.Cmd {
	return p.Eval(ctx, scripts[r.script].text, h.keys, r.args...)
}

// A Request is the input of [Acquire].
type Request struct {
	Token       string // OWNER/COUNTER
	Length, TTL time.Duration
	Source      string
	Damaged     string // the etag of a body in Redis that cannot be used
	Newer       int64  // when the copy was fetched that the replica has and Redis does not, or 0: an earlier document is due
	Unserved    bool   // the replica has no copy to serve instead of a document that is held back
}

// Acquire takes the lease if a fetch is due and the lease is free.
func Acquire(q Request) Ride {
	return Ride{q.Token, true, "acquire", []any{
		q.Token, q.Length.Milliseconds(), q.Source, q.TTL.Milliseconds(), SourceSilent.Milliseconds(), q.Damaged, q.Newer, q.Unserved,
	}}
}

// Prolong has the lease last for so long from now on.
func Prolong(token string, length time.Duration) Ride {
	return Ride{token, false, "extend", []any{token, length.Milliseconds()}}
}

// Release releases the lease without a document, and leaves word of a failure unless its count is 0.
func Release(token string, f Failure, backoff time.Duration) Ride {
	if f.Count == 0 {
		backoff = 0
	}
	return Ride{token, false, "release", []any{token, f.String(), backoff.Milliseconds()}}
}

// Want asks the other replicas, for so long, to fetch what this one cannot.
func Want(lasting time.Duration) Ride {
	return Ride{"", false, "want", []any{lasting.Milliseconds()}}
}

// Renew says that a replica of a source lives, if that is the fleet's.
func Renew(source string) Ride { return Ride{"", false, "renew", []any{source}} }

// An Outcome is the result of a script.
type Outcome string

// The outcomes of [Hash.Fill] and [Hash.Hold].
const (
	Stored   Outcome = "stored"
	Soft     Outcome = "soft"     // a soft purge came while the lease was there: the filled document is stale
	Lost     Outcome = "lost"     // a hard purge, or another owner, came: nothing was written
	Held     Outcome = "held"     // the document is held back
	Accepted Outcome = "accepted" // what would be held back is to be filled: the lease is kept,
	Expired  Outcome = "expired"  // and so it is here: the time is over
	Granted  Outcome = "granted"
)

// A Filling is the content of a fill, or the baseline of a hold.
type Filling struct {
	Source, ETag                       string
	Body                               []byte // empty renews the document that Redis has
	UpstreamETag, UpstreamLastModified string
	Suspicions                         string
	Age                                time.Duration // of the response when it was fetched
	ChangedAt                          int64         // of the same content as last known here, or 0
	TTL, Stale                         time.Duration // for how long it is fresh, and then may be served
	Released                           guard.End     // why a hold ends with it
	FetchedAt, FreshUntil              int64         // of a baseline alone
}

// Fill writes the document fetched by the lock owner.
func (h *Hash) Fill(ctx context.Context, c redis.Scripter, token string, d *Filling) (Outcome, error) {
	r, err := h.run(ctx, c, "fill", token, d.Source, d.ETag, d.Body, d.TTL.Milliseconds(), d.Stale.Milliseconds(),
		d.UpstreamETag, d.UpstreamLastModified, d.ChangedAt, d.Suspicions, string(d.Released), d.Age.Milliseconds())
	return Outcome(r.text(0)), err
}

// A Holding is what the lock owner leaves for the others when it holds a document back.
type Holding struct {
	Failure Failure
	Backoff time.Duration // before the next fetch
	Hold    guard.Record
	Covered bool     // it is no worse than what was held back before
	Last    int64    // when nothing is held back any more, by the server's clock
	Base    *Filling // what Redis gets back, unless it has that or a later one; nil where it has
}

// Hold releases the lease, and says what is held back.
func (h *Hash) Hold(ctx context.Context, c redis.Scripter, token string, w Holding) (Outcome, error) {
	args := []any{token, w.Failure.String(), w.Backoff.Milliseconds(), w.Last, w.Hold.Since, w.Hold.Findings, w.Hold.Clock, w.Covered}
	if b := w.Base; b != nil {
		args = append(args, b.ETag, b.Body, b.Source, b.FetchedAt, b.ChangedAt, b.FreshUntil, b.UpstreamETag, b.UpstreamLastModified, b.Suspicions, b.Stale.Milliseconds(), b.Age.Milliseconds())
	}
	r, err := h.run(ctx, c, "hold", args...)
	return Outcome(r.text(0)), err
}

// Accept accepts what is held back with these findings, and nothing worse, and writes the content
// warnings of the document with an etag; neither, if anything of that has changed.
func (h *Hash) Accept(ctx context.Context, c redis.Scripter, findings, etag, warnings string) (done bool, err error) {
	r, err := h.run(ctx, c, "accept", findings, etag, warnings)
	return r.int(0) > 0, err
}

// Purge purges as an operator would: DEL, or, if soft, HSET fresh_until 0 if the hash exists; and
// forgets its history, if that is to go too. It reports whether there was a document.
func (h *Hash) Purge(ctx context.Context, c redis.Scripter, soft, forget bool, by string) (held bool, err error) {
	r, err := h.run(ctx, c, "purge", soft, forget, by)
	return r.int(0) > 0, err
}

// CodeHeld is the code of a failure that is a document held back.
const CodeHeld = "held"

// A Failure is the record of failed fetches for other processes: how many in a row, and their kind.
type Failure struct {
	Count int
	Code  string
}

// String is the failure's form in the lock record.
func (f Failure) String() string { return fmt.Sprintf("failed:%d:%s", f.Count, f.Code) }

func parseFailure(lease string) Failure {
	parts := strings.SplitN(lease, ":", 3)
	if len(parts) != 3 || parts[0] != "failed" {
		return Failure{}
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil || n < 0 {
		return Failure{}
	}
	return Failure{Count: min(n, 1<<20), Code: parts[2]} // more is garbage, and one more has to fit
}
