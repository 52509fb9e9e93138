package cache

import (
	"context"
	"testing"

	"vitrine/cmd/testkit"
)

type visitorKey struct{}

// visit is a context whose value is taken away when its call is over.
type visit struct {
	context.Context
	over chan struct{}
	lent int
}

func (v *visit) Value(key any) any {
	if key != (visitorKey{}) {
		return v.Context.Value(key)
	}
	select {
	case <-v.over:
		return "somebody else"
	default:
		return "first"
	}
}

func (v *visit) Lend() context.Context {
	v.lent++
	return context.WithValue(context.Background(), visitorKey{}, v.Value(visitorKey{}))
}

func TestALoadSeesTheValuesOfWhoeverCausedItAndNotItsEnd(t *testing.T) {
	src := newSource()
	release := src.hold()
	seen := make(chan any, 1)
	o := options(LoaderFunc(func(ctx context.Context, key string, held *Document) (Loaded, error) {
		loaded, err := src.Load(ctx, key, held) // waits for its release
		seen <- ctx.Value(visitorKey{})
		return loaded, err
	}))
	_, r := replica(t, embeddedURL(t), o)

	ctx, hangUp := context.WithCancel(t.Context())
	starter := &visit{Context: ctx, over: make(chan struct{})}
	gone := make(chan error, 1)
	go func() {
		_, err := r.Get(starter)
		close(starter.over)
		gone <- err
	}()
	eventually(t, "the load has begun", func() bool { return src.loads.Load() == 1 })
	hangUp()
	if err := testkit.Receive(t, gone); err == nil {
		t.Error("a visitor who hung up got an answer")
	}
	joined := &visit{Context: t.Context(), over: make(chan struct{})}
	f, joins := r.fly(joined) // as Get does, and certainly before the load ends
	release()
	testkit.Receive(t, f.done)
	if !joins || f.err != nil {
		t.Errorf("the load ended with the visitor who caused it: joined %t, %v", joins, f.err)
	}
	if v := testkit.Receive(t, seen); v != "first" {
		t.Errorf("the load saw %v", v)
	}
	if starter.lent != 1 || joined.lent != 0 {
		t.Errorf("lent %d and %d times", starter.lent, joined.lent)
	}
}
