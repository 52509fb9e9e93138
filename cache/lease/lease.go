// Package lease has the three hashes of one resource in Redis, and the scripts that read and write
// them.
//
// The first hash has the content. The second, beside it, has vitrine's books: who is fetching,
// whether a fetch has failed, and how many times the first was written. Writes to the books do not
// look like purges. The third has earlier documents: [Hash.Remember] adds one after a fill, and
// [Hash.Restore] serves one again.
//
// One fetch goes through it in this order:
//
//  1. [Hash.Look] reads the first two; a process finds that the document is due;
//  2. [Hash.Acquire] takes the lease for the hash of one number, and makes a stub if the hash is
//     missing;
//  3. the process fetches;
//  4. [Hash.Fill] writes the document if the process still holds the lease: not if the hash is gone
//     or another (lost: a hard purge, or another holder), and as stale if fresh_until has changed
//     (soft: a soft purge). [Hash.Release] gives the lease back instead, after a failure.
//
// Each step is one script, and therefore atomic.
package lease

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// SourceGrace is how old a document of another source must be before it is fetched again, so that
// two replicas with different configurations do not alternate endlessly.
const SourceGrace = 5 * time.Second

// A Hash is the hash of one resource, the one beside it, and that of its history.
type Hash struct {
	name   string // of the resource, for traces
	keys   []string
	holder string
	// writable is set where Redis knows no script that is read-only: before 7.0, or for want of
	// rights.
	writable atomic.Bool
}

// New is the hash of the resource under prefix. Holder names this process in leases.
func New(prefix, resource, holder string) *Hash {
	key := prefix + resource
	return &Hash{name: resource, keys: []string{key, Beside(prefix, resource), prefix + "history:{" + key + "}"}, holder: holder}
}

// Beside is the key of the books of a resource.
func Beside(prefix, resource string) string { return prefix + "lease:{" + prefix + resource + "}" }

func (h *Hash) run(ctx context.Context, c redis.Scripter, s script, args ...any) (reply, error) {
	return s.run(ctx, c, h.name, h.keys, args...)
}

// Content is what a hash holds.
type Content int

// What a hash holds. The zero value is that of a process that has not asked.
const (
	Unknown Content = iota
	Nothing
	Stub // a lease, or a failure, and no document
	Document
)

// A Place is where Redis is in its history of one resource. Two places tell what became of a copy:
// each fill and each stub raises the number, and a purge removes the hash of that number.
type Place struct {
	Set   string // names the data set: random, and another after a loss; "" if there is none
	Seq   int64  // how many times the hash was written in this set
	Holds Content
}

// A Record is what is held at the server's time Now. Times are Unix milliseconds by that clock, 0
// where missing or not a number. FetchedAt is later than Now if the clock was set back: the
// document is due.
type Record struct {
	Now int64
	Place
	// Body is nil if the caller has it, or there is none.
	Body                             []byte
	ETag, Source                     string
	FetchedAt, ChangedAt, FreshUntil int64
	// Lease is the holder's token and Left its remaining time; after a failed fetch Failure is set,
	// and Left is the pause until the next.
	Lease                              string
	Failure                            Failure
	Left                               time.Duration
	UpstreamETag, UpstreamLastModified string
	Suspicions                         string // as the fill had them
	// Accept says that an operator accepts what is fetched next, and Hold what is held back until
	// then.
	Accept bool
	Hold   Hold
	// PinnedUntil is until when nothing is fetched, or was, since PinnedBy has restored the document;
	// else 0.
	PinnedUntil int64
	PinnedBy    string
	// Restore is the version, or [Latest], that an operator wrote into the hash to be served, and that
	// nobody has carried out yet. Anything can stand there.
	Restore string
	// Wanted is for how long some process that cannot fetch wants another to: see [Hash.Want].
	Wanted time.Duration

	mark string // fresh_until as it is written
}

// A Hold is a document that was fetched and not stored, since the one held should not be replaced
// by it without being asked. The zero value is none.
type Hold struct {
	Since       int64 // of the first such document in a row, by the server's clock, Unix milliseconds
	Until       int64 // when the next one is taken all the same; 0: when an operator accepts it
	Reason      string
	Before, Now int // items of the list that the reason is about
}

// Soft reports whether an operator has declared the document stale, and nobody is fetching it yet.
func (r *Record) Soft() bool { return r.FreshUntil == 0 }

// Pinned reports whether nothing is fetched, since an operator has restored the document.
func (r *Record) Pinned() bool { return r.PinnedUntil > r.Now }

// Since is when the document's age began: when it was fetched, or when its pin ended.
func (r *Record) Since() int64 {
	if r.Pinned() {
		return r.FetchedAt
	}
	return max(r.FetchedAt, r.PinnedUntil)
}

// Look reads both hashes in one round trip. The body is included if its etag is not have.
func (h *Hash) Look(ctx context.Context, c redis.Scripter, have string) (Record, error) {
	if !h.writable.Load() {
		r, err := look.runReadOnly(ctx, c, h.name, h.keys, have)
		if err == nil || !noReadOnly(err) {
			return record(r), err
		}
		h.writable.Store(true)
	}
	r, err := look.run(ctx, c, h.name, h.keys, have)
	return record(r), err
}

// record is what the script function found returns.
func record(r reply) Record {
	rec := Record{
		Now: r.int(0), Place: Place{Set: r.text(1), Seq: r.int(2), Holds: Nothing}, ETag: r.text(5), Source: r.text(6),
		FetchedAt: r.int(7), ChangedAt: r.int(8), FreshUntil: r.int(9), Lease: r.text(10), Failure: parseFailure(r.text(10)), Left: r.millis(11),
		UpstreamETag: r.text(12), UpstreamLastModified: r.text(13), mark: r.text(14),
		Suspicions: r.text(15), Accept: r.int(16) != 0, PinnedUntil: r.int(17), PinnedBy: r.text(18), Restore: r.text(19), Wanted: r.millis(20),
		Hold: Hold{Since: r.int(21), Until: r.int(22), Reason: r.text(23), Before: int(r.int(24)), Now: int(r.int(25))},
	}
	switch {
	case rec.ETag != "":
		rec.Holds = Document
	case r.int(3) != 0:
		rec.Holds = Stub
	}
	if body := r.text(4); body != "" {
		rec.Body = []byte(body)
	}
	return rec
}

// An Outcome is the result of a script.
type Outcome string

// The outcomes of [Hash.Acquire].
const (
	Granted Outcome = "granted" // fetch, then fill or release
	Fresh   Outcome = "fresh"   // another process has fetched meanwhile
	Held    Outcome = "held"    // another process is fetching
	Failed  Outcome = "failed"  // a fetch has failed, and it is too early to try again
)

// A Request is the input of [Hash.Acquire].
type Request struct {
	Have        string // as for [Hash.Look]
	Token       string
	Length, TTL time.Duration
	Source      string
	Damaged     string // the etag of a body in Redis that cannot be used
	Newer       int64  // when the copy was fetched that the caller has and Redis does not, or 0: an older document is due
	Lost        int64  // the same if Redis has lost that copy: an older pin has come back, and holds nobody
	Unserved    bool   // the caller has no copy to serve instead of a document that is held back, and does not pause for it
}

// A Lease is the right to fetch a resource, or the reason why it was not granted, and what is held
// after that. Once granted, it is not in the record, and Failure is the preceding one.
type Lease struct {
	Record
	Outcome Outcome
	Token   string
	Wrote   bool // the hash of the resource was written
}

// Acquire takes the lease if a fetch is due and the lease is free.
func (h *Hash) Acquire(ctx context.Context, c redis.Scripter, q Request) (Lease, error) {
	r, err := h.run(ctx, c, acquire, q.Have, q.Token, q.Length.Milliseconds(), q.Source, q.TTL.Milliseconds(),
		SourceGrace.Milliseconds(), q.Damaged, h.holder+"/", q.Newer, q.Lost, q.Unserved)
	l := Lease{Record: record(r[min(3, len(r)):]), Outcome: Outcome(r.text(0)), Token: q.Token, Wrote: r.int(2) == 1}
	if l.Outcome == Granted {
		l.Lease, l.Left, l.Failure = "", 0, parseFailure(r.text(1))
	}
	return l, err
}

// The outcomes of [Hash.Fill] and [Hash.Release].
const (
	Stored   Outcome = "stored"
	Released Outcome = "released"
	Soft     Outcome = "soft"     // a soft purge came while the lease was held: the filled document is stale
	Lost     Outcome = "lost"     // a hard purge, or another holder, came: nothing was written
	Accepted Outcome = "accepted" // what would be held back is to be filled: the lease is kept
)

// A Filling is the content of a fill.
type Filling struct {
	Source, ETag                       string
	Body                               []byte // empty renews the held document
	UpstreamETag, UpstreamLastModified string
	TTL                                time.Duration
	ChangedAt                          int64  // of the same content as last known here, or 0
	Suspicions                         string // kept beside the body
}

// Filled is the result of a fill: the times it wrote, and the place after it.
type Filled struct {
	Outcome                    Outcome
	Now, ChangedAt, FreshUntil int64
	Place
}

// Fill writes the document fetched by the holder of the lease.
func (h *Hash) Fill(ctx context.Context, c redis.Scripter, l Lease, d Filling) (Filled, error) {
	r, err := h.run(ctx, c, fill, l.Token, l.mark, d.Source, d.ETag, d.Body, d.TTL.Milliseconds(),
		d.UpstreamETag, d.UpstreamLastModified, d.ChangedAt, d.Suspicions)
	return Filled{
		Outcome: Outcome(r.text(0)), Now: r.int(1), ChangedAt: r.int(2), FreshUntil: r.int(3),
		Place: Place{Set: r.text(4), Seq: r.int(5), Holds: Document},
	}, err
}

// A Word is what the holder of a lease leaves for the others when it gives the lease back.
type Word struct {
	Failure Failure
	Pause   time.Duration // before the next fetch; 0 leaves no word
	Hold    Hold          // what is held back; the zero value is nothing
	Last    int64         // when nothing is held back any more, by the server's clock
}

// Release gives the lease back without a document.
func (h *Hash) Release(ctx context.Context, c redis.Scripter, l Lease, w Word) (Outcome, error) {
	args := []any{l.Token, l.mark, w.Failure.String(), w.Pause.Milliseconds()}
	if w.Hold.Since > 0 {
		args = append(args, w.Last, w.Hold.Since, w.Hold.Until, w.Hold.Reason, w.Hold.Before, w.Hold.Now)
	}
	r, err := h.run(ctx, c, release, args...)
	return Outcome(r.text(0)), err
}

// Accept accepts what is fetched next, as an operator's HSET accept 1 would. It reports whether
// there is a hash to say so in, and whether a document is held back.
func (h *Hash) Accept(ctx context.Context, c redis.Scripter) (held, back bool, err error) {
	r, err := h.run(ctx, c, accept)
	return r.int(0) > 0, r.int(1) > 0, err
}

// Purge purges as an operator would: DEL, or, if soft, HSET fresh_until 0 if the hash exists; and
// forgets its history, if that is to go too. It reports whether there was a document.
func (h *Hash) Purge(ctx context.Context, c redis.Scripter, soft, forget bool) (held bool, err error) {
	r, err := h.run(ctx, c, purge, soft, forget)
	return r.int(0) > 0, err
}

// Want asks the other processes, for so long from rec on, to fetch what this one cannot.
func (h *Hash) Want(ctx context.Context, c redis.Cmdable, rec *Record, lasting time.Duration) error {
	return c.HSet(ctx, h.keys[1], "wanted_until", rec.Now+lasting.Milliseconds()).Err()
}

// CodeHeld is the code of a failure that is a document held back.
const CodeHeld = "held"

// A Failure is the record of failed fetches for other processes: how many in a row, and their kind.
type Failure struct {
	Count int
	Code  string
}

// String is the failure's form in the hash.
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
	return Failure{Count: n, Code: parts[2]}
}
