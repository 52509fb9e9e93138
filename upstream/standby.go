package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"vitrine/upstream/shape"
)

// standbys is a CMS behind one base URL or several, in order of preference.
//
// A document is fetched whole from one of them: from the one in use, and where
// the table in retry.go says so, from the next. The one that answered is in use
// from then on. While that is a standby, every fetch is also made, on the side,
// from those that are preferred to it; what these bring is thrown away, until
// one has done well for long enough to be used again.
//
// Each has a breaker. A fetch that is let through while it is half open is the
// probe: gobreaker lets one through in this process, and Failover.Claim one
// among all processes. A probe that failed keeps its claim for as long as the
// breaker is open again, so that however many processes there are, the CMS is
// bothered by one.
type standbys struct {
	bases   []*base
	options Failover
	timeout time.Duration
	log     *slog.Logger

	ctx    context.Context // of the fetches on the side; ends with close
	cancel context.CancelFunc
	aside  sync.WaitGroup // these fetches

	mu     sync.Mutex // guards what follows, and each base's own
	inUse  int
	closed bool
}

// base is one base URL.
type base struct {
	source  source
	name    string // for people
	mark    string // tells its validators from those of the others; empty if there are none
	breaker *gobreaker.TwoStepCircuitBreaker[answer]

	// Guarded by standbys.mu.
	failures int                     // in a row that count towards opening
	failed   map[shape.Resource]bool // what it did not bring when last asked
	failedAt time.Time
	well     int                     // fetches in a row that it did well
	probing  map[shape.Resource]bool // on the side

	opening sync.Mutex // guards what follows, which the breaker tells under its own lock
	since   time.Time  // of its state
}

// newStandbys makes the source for one or more base URLs. The fingerprint
// covers all of them, whichever is in use, and not their order: what one
// brought is as good as what another brings.
func newStandbys(o Options) (source, string, error) {
	urls, err := splitURLs(o.URL)
	if err != nil {
		return nil, "", err
	}
	failover, err := o.Failover.withDefaults()
	if err != nil {
		return nil, "", err
	}
	s := &standbys{options: failover, timeout: o.Timeout, log: o.Logger}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	prints := make([]string, len(urls))
	for i, u := range urls {
		o.URL = u
		one, made, err := newHTTP(o)
		if err != nil {
			return nil, "", err
		}
		mark := ""
		if len(urls) > 1 {
			sum := sha256.Sum256([]byte(one.String()))
			mark = hex.EncodeToString(sum[:4]) + ":"
		}
		prints[i] = made
		s.add(one, mark)
	}
	if len(prints) == 1 {
		return s, prints[0], nil
	}
	slices.Sort(prints)
	return s, fingerprint(o, prints...), nil
}

func (s *standbys) add(one source, mark string) {
	b := &base{
		source: one, name: one.String(), mark: mark, since: time.Now(),
		failed: make(map[shape.Resource]bool), probing: make(map[shape.Resource]bool),
	}
	b.breaker = gobreaker.NewTwoStepCircuitBreaker[answer](gobreaker.Settings{
		Name:         b.name,
		MaxRequests:  1,
		Timeout:      s.options.OpenFor,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= s.options.Failures },
		IsSuccessful: func(err error) bool { return err == nil || !judge(err).trips },
		IsExcluded:   func(err error) bool { return errors.Is(err, errNotAsked) || errors.Is(err, context.Canceled) },
		OnStateChange: func(name string, from, to gobreaker.State) {
			b.opening.Lock()
			b.since = time.Now()
			b.opening.Unlock()
			level := slog.LevelInfo
			if to == gobreaker.StateOpen && from == gobreaker.StateClosed {
				level = slog.LevelWarn
			}
			s.log.Log(s.ctx, level, "breaker of the upstream", "upstream", name, "from", from.String(), "to", to.String())
		},
	})
	s.bases = append(s.bases, b)
}

// errNotAsked excludes a fetch that was let through and then not made.
var errNotAsked = errors.New("not asked")

func (s *standbys) fetch(ctx context.Context, r shape.Resource, held Validators) (answer, error) {
	var failed []*FetchError
	attempts := 0
	order := s.order()
	for i, b := range order {
		got, err := s.ask(ctx, b, r, held, order[i+1:])
		attempts += got.attempts
		got.attempts = attempts
		if err == nil {
			if i > 0 { // else another fetch may have left b meanwhile, with reason
				s.use(b)
			}
			s.probeAside(b, r, held) //nolint:contextcheck // it goes on after the fetch, until close
			return got, nil
		}
		failure, ok := errors.AsType[*FetchError](err)
		if !ok {
			return got, err
		}
		failed = append(failed, failure)
		if ctx.Err() != nil || !judge(err).next || i == len(order)-1 {
			return got, allFailed(r, failed)
		}
		s.log.LogAttrs(ctx, slog.LevelInfo, "upstream failed, trying the next",
			slog.String("resource", string(r)), slog.String("next", order[i+1].name), slog.Any("error", err))
	}
	panic("upstream: a list of no base URLs")
}

// order is the one in use, then the others as they are preferred.
func (s *standbys) order() []*base {
	s.mu.Lock()
	defer s.mu.Unlock()
	order := make([]*base, 0, len(s.bases))
	order = append(order, s.bases[s.inUse])
	for i, b := range s.bases {
		if i != s.inUse {
			order = append(order, b)
		}
	}
	return order
}

// ask fetches from b, unless its breaker is open. As long as one of others may
// be asked after it, it has half of the time that is left.
func (s *standbys) ask(ctx context.Context, b *base, r shape.Resource, held Validators, others []*base) (answer, error) {
	done, err := b.breaker.Allow()
	if err != nil {
		return answer{}, s.open(b, r)
	}
	outcome := errNotAsked
	defer func() { done(outcome) }() // a panic counts for nothing
	release := func(time.Duration) {}
	if b.breaker.State() == gobreaker.StateHalfOpen && s.options.Claim != nil {
		give, ok := s.options.Claim(ctx, "probe:"+hash(b.name), s.timeout+s.options.OpenFor)
		if !ok {
			return answer{}, s.open(b, r)
		}
		release = give
	}

	limit := time.Duration(0)
	bounded := ctx
	if deadline, ok := ctx.Deadline(); ok && slices.ContainsFunc(others, (*base).mayBeAsked) {
		limit = time.Until(deadline) / 2
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	got, err := b.source.fetch(bounded, r, b.own(held))
	got.validators, got.upstream = b.marked(got.validators), b.name
	if late, ok := errors.AsType[*lateError](err); ok && ctx.Err() == nil {
		late.limit = limit
	}
	outcome = err
	if errors.Is(ctx.Err(), context.Canceled) {
		outcome = context.Canceled // whatever else came of it
		release(0)
		return got, err
	}
	if err != nil && judge(err).trips {
		release(s.options.OpenFor)
	} else {
		release(0)
	}
	s.note(b, r, err)
	return got, err
}

func (b *base) mayBeAsked() bool { return b.breaker.State() != gobreaker.StateOpen }

func (s *standbys) open(b *base, r shape.Resource) error {
	b.opening.Lock()
	left := s.options.OpenFor - time.Since(b.since)
	b.opening.Unlock()
	return &FetchError{Resource: r, Op: "GET " + b.name, Kind: ErrOpen, Err: &OpenError{After: max(left, 0)}}
}

// own returns the validators that b gave out, and none of another base URL.
func (b *base) own(held Validators) Validators {
	cut := func(text string) string {
		own, ok := strings.CutPrefix(text, b.mark)
		if !ok {
			return ""
		}
		return own
	}
	return Validators{ETag: cut(held.ETag), LastModified: cut(held.LastModified)}
}

func (b *base) marked(v Validators) Validators {
	if v.ETag != "" {
		v.ETag = b.mark + v.ETag
	}
	if v.LastModified != "" {
		v.LastModified = b.mark + v.LastModified
	}
	return v
}

// note keeps account of how b does.
func (s *standbys) note(b *base, r shape.Resource, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		b.failures, b.well = 0, b.well+1
		delete(b.failed, r)
	case judge(err).next:
		b.well, b.failed[r], b.failedAt = 0, true, time.Now()
		if judge(err).trips {
			b.failures++
		} else {
			b.failures = 0
		}
	}
}

// use makes b the one in use.
func (s *standbys) use(b *base) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.bases, b)
	if i == s.inUse {
		return
	}
	s.log.Warn("using another upstream", "upstream", b.name, "instead_of", s.bases[s.inUse].name)
	s.inUse = i
}

// probeAside fetches r, as it was just fetched from b, from those that are preferred to b.
func (s *standbys) probeAside(b *base, r shape.Resource, held Validators) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, preferred := range s.bases[:slices.Index(s.bases, b)] {
		if preferred.probing[r] || s.closed {
			continue
		}
		preferred.probing[r] = true
		s.aside.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
			defer cancel()
			_, err := s.ask(ctx, preferred, r, held, nil)
			s.reconsider(preferred, r, err)
		})
	}
}

// reconsider ends a probe on the side: a base URL that has done well for long
// enough is used again.
func (s *standbys) reconsider(b *base, r shape.Resource, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(b.probing, r)
	i := slices.Index(s.bases, b)
	if err != nil || i >= s.inUse || b.well < s.options.Probes || len(b.failed) > 0 ||
		time.Since(b.failedAt) < s.options.ReturnAfter {
		return
	}
	s.log.Info("using the preferred upstream again", "upstream", b.name, "instead_of", s.bases[s.inUse].name)
	s.inUse = i
}

func (s *standbys) String() string {
	names := make([]string, len(s.bases))
	for i, b := range s.bases {
		names[i] = b.name
	}
	return strings.Join(names, ", ")
}

func (s *standbys) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.aside.Wait()
	for _, b := range s.bases {
		b.source.close()
	}
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}
