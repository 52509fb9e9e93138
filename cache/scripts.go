package cache

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// layout is the version of the hash's fields; a document of another is a miss.
const layout = "1"

// sourceGrace is how old a document of another source must be before it is fetched anew, so that two replicas
// with different configurations do not take turns without end.
const sourceGrace = 5 * time.Second

var (
	//go:embed lua/prelude.lua
	prelude string
	//go:embed lua/look.lua
	lookLua string
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/fill.lua
	fillLua string
	//go:embed lua/release.lua
	releaseLua string
	//go:embed lua/extend.lua
	extendLua string

	lookScript    = redis.NewScript(prelude + lookLua)
	acquireScript = redis.NewScript(prelude + acquireLua)
	fillScript    = redis.NewScript(prelude + fillLua)
	releaseScript = redis.NewScript(prelude + releaseLua)
	extendScript  = redis.NewScript(prelude + extendLua)
)

// A record is the hash of one resource as it was at the server's time now.
type record struct {
	now  int64 // the server's time, Unix milliseconds
	body []byte
	etag string
	// Unix milliseconds, 0 where missing or not a number.
	fetchedAt, changedAt, freshUntil, leaseUntil int64
	hasFreshUntil                                bool // a lease taken while nothing was held has none

	upstreamETag, upstreamLastModified, layout, source, lease string
}

// look reads the hash in one round trip. The body is nil when its etag is have.
//
// It changes nothing, so that a connection which turns out to be closed is no reason not to ask on another.
func (s *Store) look(ctx context.Context, key, have string) (record, error) {
	reply, err := s.run(ctx, lookScript, key, have)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		reply, err = s.run(ctx, lookScript, key, have)
	}
	if err != nil {
		return record{}, err
	}
	rec := record{now: reply.int(0)}
	if len(reply) < 12 {
		return rec, nil
	}
	if body, ok := reply[1].(string); ok {
		rec.body = []byte(body)
	}
	rec.etag = reply.text(2)
	rec.fetchedAt, rec.changedAt, rec.freshUntil = reply.int(3), reply.int(4), reply.int(5)
	rec.hasFreshUntil = reply.text(5) != ""
	rec.upstreamETag, rec.upstreamLastModified = reply.text(6), reply.text(7)
	rec.layout, rec.source, rec.lease = reply.text(8), reply.text(9), reply.text(10)
	rec.leaseUntil = reply.int(11)
	return rec, nil
}

// The outcomes of acquire.
const (
	granted = "granted" // fetch, then fill or release
	fresh   = "fresh"   // somebody has fetched meanwhile
	held    = "held"    // somebody is fetching
	failed  = "failed"  // somebody has failed, and it is too early to try again
)

// A lease is the right to fetch a resource, or why it was not given.
type lease struct {
	outcome string
	token   string
	mark    string        // what fresh_until was when the lease was given
	etag    string        // of the document that a renewal would keep; empty when none can be
	source  string        // of that document
	failure failure       // granted: what the fetch follows; failed: what the others are told
	left    time.Duration // held, failed: how long the lease or the backoff lasts
}

func (s *Store) acquire(ctx context.Context, key, token, source, damaged string, length, ttl time.Duration) (lease, error) {
	reply, err := s.run(ctx, acquireScript, key, token, length.Milliseconds(), layout, source, ttl.Milliseconds(), sourceGrace.Milliseconds(), damaged,
		s.holder+"/")
	if err != nil {
		return lease{}, err
	}
	l := lease{outcome: reply.text(0), token: token}
	if l.outcome == granted {
		l.mark, l.failure, l.etag, l.source = reply.text(2), parseFailure(reply.text(3)), reply.text(4), reply.text(5)
		return l, nil
	}
	l.left, l.failure = time.Duration(reply.int(2))*time.Millisecond, parseFailure(reply.text(3))
	return l, nil
}

// The outcomes of fill and release.
const (
	stored   = "stored"
	released = "released"
	soft     = "soft" // a soft purge came while the lease was held: what was filled is stale
	lost     = "lost" // a purge, or another holder, came: nothing was written
)

type filling struct {
	source, etag                       string
	body                               []byte // empty renews the held document
	ttl, window                        time.Duration
	upstreamETag, upstreamLastModified string
	changedAt                          int64 // of the same content as last known here, or 0
}

// filled is what a fill did, with the times it wrote.
type filled struct {
	outcome                    string
	now, changedAt, freshUntil int64
}

func (s *Store) fill(ctx context.Context, key string, l lease, f filling) (filled, error) {
	changed := ""
	if f.changedAt > 0 {
		changed = strconv.FormatInt(f.changedAt, 10)
	}
	reply, err := s.run(ctx, fillScript, key, l.token, l.mark, layout, f.source, f.etag, f.body, f.ttl.Milliseconds(), f.window.Milliseconds(),
		f.upstreamETag, f.upstreamLastModified, changed)
	if err != nil {
		return filled{}, err
	}
	return filled{outcome: reply.text(0), now: reply.int(1), changedAt: reply.int(2), freshUntil: reply.int(3)}, nil
}

func (s *Store) release(ctx context.Context, key string, l lease, f failure, wait time.Duration) (string, error) {
	reply, err := s.run(ctx, releaseScript, key, l.token, l.mark, f.String(), wait.Milliseconds())
	if err != nil {
		return "", err
	}
	return reply.text(0), nil
}

// extend has Redis keep the document to the end of the stale window, should that be later than it would.
func (s *Store) extend(ctx context.Context, key string, ttl, window time.Duration) error {
	_, err := s.run(ctx, extendScript, key, ttl.Milliseconds(), window.Milliseconds())
	return err
}

// A failure is the word left for other processes after a failed fetch: how many in a row, and what kind.
type failure struct {
	count int
	code  string
}

func (f failure) String() string { return fmt.Sprintf("failed:%d:%s", f.count, f.code) }

func parseFailure(lease string) failure {
	parts := strings.SplitN(lease, ":", 3)
	if len(parts) != 3 || parts[0] != failed {
		return failure{}
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil || n < 0 {
		return failure{}
	}
	return failure{count: n, code: parts[2]}
}

// reply is what a script returned. A field that is missing or of another type reads as empty or 0:
// an operator may have written anything there.
type reply []any

var errReply = errors.New("unexpected reply from a script")

func (s *Store) run(ctx context.Context, script *redis.Script, key string, args ...any) (reply, error) {
	span := startCall(ctx, operation(script), key)
	v, err := script.Run(ctx, s.client, []string{s.prefix + key}, args...).Slice()
	endCall(span, err)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	if len(v) == 0 {
		return nil, fmt.Errorf("redis: %w: empty", errReply)
	}
	return v, nil
}

func (r reply) text(i int) string {
	if i < len(r) {
		switch v := r[i].(type) {
		case string:
			return v
		case int64:
			return strconv.FormatInt(v, 10)
		}
	}
	return ""
}

func (r reply) int(i int) int64 {
	n, err := strconv.ParseInt(r.text(i), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
