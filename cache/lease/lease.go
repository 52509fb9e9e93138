// Package lease is the Redis hash of one resource, and the scripts that read and write it.
//
// Content and lease are fields of one hash. A process that finds a document due acquires the lease
// ([Hash.Acquire]), fetches, and fills ([Hash.Fill]) if it still holds the lease, or releases it
// ([Hash.Release]). Each is one script, and so atomic: between acquire and fill either nothing
// happened to the hash, or the token is gone (a hard purge, another holder: lost), or fresh_until
// is another (a soft purge: soft). [Hash.Look] is the one way to read it.
package lease

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Layout is the version of the hash's fields. Those of another are left alone: a version that changes
// the number has fields of its own in the hash (see load), and is fetched for itself.
const Layout = "1"

// space is what the names of a layout's fields begin with: nothing for the first.
var space = strings.TrimPrefix(Layout+":", "1:")

// SourceGrace is how old a document of another source must be before it is fetched again, so that
// two replicas with different configurations do not alternate endlessly.
const SourceGrace = 5 * time.Second

// Restored is the FreshUntil of a document that was put back after Redis had lost it. One that an
// operator has declared stale has 0, and a lower number once somebody fetches it.
const Restored = -1

// A Hash is the hash of one resource.
type Hash struct {
	name   string // of the resource, for traces
	keys   []string
	holder string
	most   time.Duration
}

// New is the hash of the resource under prefix. Holder names this process in leases. Most is longer
// than any lease or pause of a process; one that seems to last longer is over.
func New(prefix, resource, holder string, most time.Duration) *Hash {
	key := prefix + resource
	return &Hash{name: resource, keys: []string{key, prefix + "dataset:" + space + "{" + key + "}"}, holder: holder, most: most}
}

// A Record is the hash at the server's time Now. Times are Unix milliseconds by that clock, 0 where
// missing or not a number. FetchedAt is later than Now if the clock was set back: the document is due.
type Record struct {
	Now int64
	// Dataset names Redis's data: another name means that Redis lost its data, or was emptied.
	Dataset string
	// Body is nil if the caller has it, or there is none.
	Body                             []byte
	ETag, Layout, Source             string
	FetchedAt, ChangedAt, FreshUntil int64
	// Lease is the holder's token and Left its remaining time; after a failed fetch Failure is set,
	// and Left is the pause until the next.
	Lease                              string
	Failure                            Failure
	Left                               time.Duration
	UpstreamETag, UpstreamLastModified string
	// Vacant names a hash without a document, such as a lease alone, or with one that was put back:
	// after a purge it is another.
	Vacant string
	// Writes is how many writes of another have made such a hash: a lease, and that it was given back.
	Writes uint64
	// Overwritten: a client has put a value of another type in the document's place.
	Overwritten bool

	mark string // fresh_until as it is written
}

// Holds reports whether there is a document.
func (r *Record) Holds() bool { return r.ETag != "" && r.Layout == Layout }

// Soft reports whether an operator has declared the document stale, and nobody is fetching it yet.
func (r *Record) Soft() bool { return r.FreshUntil == 0 }

// Look reads the hash in one round trip. The body is included if its etag is not have.
func (h *Hash) Look(ctx context.Context, c redis.Scripter, have string) (Record, error) {
	r, err := h.run(ctx, c, look, h.most.Milliseconds(), have)
	return h.record(r), err
}

// record is what the script function found returns.
func (h *Hash) record(r reply) Record {
	rec := Record{
		Now: r.int(0), Dataset: r.text(1), ETag: r.text(4), Layout: r.text(5), Source: r.text(6),
		FetchedAt: r.int(7), ChangedAt: r.int(8), FreshUntil: r.int(9), Lease: r.text(10), Failure: parseFailure(r.text(10)), Left: r.millis(11),
		UpstreamETag: r.text(12), UpstreamLastModified: r.text(13), Vacant: r.text(14), mark: r.text(15),
	}
	rec.Overwritten = r.text(2) != "hash" && r.text(2) != "none" || strings.HasPrefix(rec.Vacant, "overwritten:")
	switch {
	case rec.Vacant == "" || strings.HasPrefix(rec.Vacant, h.holder+"/"): // own writes are known: see watch.Key
	case rec.Lease == "" || rec.Failure.Count > 0:
		rec.Writes = 2
	default:
		rec.Writes = 1
	}
	if body := r.text(3); body != "" {
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
	Lost        bool   // a document that Redis has lost can be put back
}

// A Lease is the right to fetch a resource, or the reason why it was not granted, and what the hash
// was then. Once granted, its Failure is the preceding one.
type Lease struct {
	Record
	Outcome Outcome
	Token   string
}

// Acquire takes the lease if a fetch is due and the lease is free.
func (h *Hash) Acquire(ctx context.Context, c redis.Scripter, q Request) (Lease, error) {
	r, err := h.run(ctx, c, acquire, h.most.Milliseconds(), q.Have, q.Token, q.Length.Milliseconds(), Layout, q.Source, q.TTL.Milliseconds(),
		SourceGrace.Milliseconds(), q.Damaged, h.holder+"/", q.Lost)
	l := Lease{Record: h.record(r), Outcome: Outcome(r.text(16)), Token: q.Token}
	if l.Lease == "" { // granted over one that may have run out
		l.Writes = min(l.Writes, 1)
	}
	return l, err
}

// The outcomes of [Hash.Fill] and [Hash.Release].
const (
	Stored   Outcome = "stored"
	Released Outcome = "released"
	Soft     Outcome = "soft" // a soft purge came while the lease was held: the filled document is stale
	Lost     Outcome = "lost" // a hard purge, or another holder, came: nothing was written
)

// A Document is written by a fill, or put back by a release.
type Document struct {
	Source, ETag                       string
	Body                               []byte // empty renews the held document
	UpstreamETag, UpstreamLastModified string
	TTL, Window                        time.Duration // fresh for TTL, kept for Window longer
	FetchedAt                          int64         // for a release only
	ChangedAt                          int64         // of the same content as last known here, or 0
}

// Filled is the result of a fill, with the times it wrote.
type Filled struct {
	Outcome                    Outcome
	Now, ChangedAt, FreshUntil int64
}

// Fill writes the document fetched by the holder of the lease.
func (h *Hash) Fill(ctx context.Context, c redis.Scripter, l Lease, d Document) (Filled, error) {
	r, err := h.run(ctx, c, fill, l.Token, l.mark, Layout, d.Source, d.ETag, d.Body, d.TTL.Milliseconds(), d.Window.Milliseconds(),
		d.UpstreamETag, d.UpstreamLastModified, d.ChangedAt)
	return Filled{Outcome: Outcome(r.text(0)), Now: r.int(1), ChangedAt: r.int(2), FreshUntil: r.int(3)}, err
}

// A Word is what a lease that is given back leaves behind.
type Word struct {
	Failure Failure
	Pause   time.Duration // for which the failure counts; 0: there was none
	Keep    time.Duration // of a key without a document, so that removing it is announced
	Lost    *Document     // the last good copy, if Redis has lost it
}

// Release gives the lease back, and reports whether the lost document was put back.
func (h *Hash) Release(ctx context.Context, c redis.Scripter, l Lease, w Word) (o Outcome, restored bool, err error) {
	d := w.Lost
	if d == nil {
		d = &Document{}
	}
	r, err := h.run(ctx, c, release, l.Token, l.mark, w.Failure.String(), w.Pause.Milliseconds(), w.Keep.Milliseconds(),
		Layout, d.Source, d.ETag, d.Body, d.FetchedAt, d.ChangedAt, d.UpstreamETag, d.UpstreamLastModified)
	return Outcome(r.text(0)), r.int(1) == 1, err
}

// Purge purges as an operator would: DEL, or, if soft, HSET fresh_until 0 if the hash exists. It
// reports whether there was a document.
func (h *Hash) Purge(ctx context.Context, c redis.Scripter, soft bool) (held bool, err error) {
	r, err := h.run(ctx, c, purge, soft)
	return r.int(0) > 0, err
}

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
