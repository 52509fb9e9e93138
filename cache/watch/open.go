package watch

import "context"

// Open starts to follow the Redis that o names. It fails on an invalid URL, but not if Redis is
// unreachable.
func Open(ctx context.Context, o Options) (*Watch, error) {
	dial, err := parseURL(o.URL, o.Patience)
	if err != nil {
		return nil, err
	}
	w := &Watch{
		o: o, dial: dial, heartbeat: o.Bound * 3 / 10, trust: o.Bound * 9 / 10,
		keys: map[string]*Key{}, others: map[string]bool{}, servers: map[string]*Server{}, settled: make(chan struct{}), poked: make(chan struct{}, 1),
	}
	w.read.Store(never)
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	w.confirmed.Store(never)
	if dial.voter == nil {
		w.route = func(string) string { return dial.seeds[0] }
		w.confirmed.Store(forever)
		close(w.settled)
	} else {
		w.tasks.Go(w.followMasters)
	}
	return w, nil
}
