package cache

import (
	"strings"
	"testing"
)

func TestAPanicInPrepareIsAnErrorAndHoldsUpNobody(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src := newSource()
		_, sound := replica(t, b.url, options(src))
		get(t, sound) // Redis holds it, so that the other replica's first look prepares it
		o := options(src)
		o.Prepare = func(*Document) (int64, error) { panic("a document that nobody thought of") }
		_, r := replica(t, b.url, o)
		if _, err := r.Get(t.Context()); err == nil || !strings.Contains(err.Error(), "that nobody thought of") {
			t.Errorf("got %v", err)
		}
		if _, err := r.Get(t.Context()); err == nil {
			t.Error("the next one is told nothing")
		}
	})
}
