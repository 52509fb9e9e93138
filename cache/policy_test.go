package cache

import (
	"errors"
	"testing"
	"time"

	"vitrine/cache/redistest"
)

func TestAStaleWindowThatIsWidenedKeepsWhatIsHeld(t *testing.T) {
	backends(t, func(t *testing.T, b backend) {
		src := newSource()
		o := options(src)
		o.TTL, o.StaleWhileRevalidate, o.StaleIfError = 2*time.Second, 0, 0
		_, r := replica(t, b.url, o)
		get(t, r)
		wide := o.policy()
		wide.StaleIfError = time.Hour
		must(t, r.SetPolicy(t.Context(), wide))
		src.fail(errors.New("away"))
		eventually(t, "the CMS is known to fail", func() bool {
			a := get(t, r) // never an error
			return a.Status.Stale && a.Status.Detail == DetailIfError
		})
		must(t, r.SetPolicy(t.Context(), o.policy()))
		eventually(t, "the window is closed again", func() bool {
			_, err := r.Get(t.Context())
			return err != nil
		})
	})
}

func TestADocumentOfAnotherSourceIsFetchedAnew(t *testing.T) {
	server := redistest.Start(t)
	src := newSource()
	o := options(src)
	_, r := replica(t, server.URL(), o)
	get(t, r)

	// The interleaving: a load begins, the policy changes, the load ends. What it brings is of the old source.
	must(t, server.Client().Del(t.Context(), key).Err())
	eventually(t, "the purge is heard", func() bool { return r.Snapshot().State == StateMissing })
	release := src.hold()
	got := make(chan error, 1)
	go func() {
		_, err := r.Get(t.Context())
		got <- err
	}()
	<-src.entered
	other := o.policy()
	other.Source = "other"
	must(t, r.SetPolicy(t.Context(), other))
	src.version.Add(1)
	release()
	must(t, <-got)
	if s := server.Client().HGet(t.Context(), key, "source").Val(); s != "test" {
		t.Errorf("what was loaded under the old policy has the source %q", s)
	}

	// It is stale, no worse, and so is given until the new one is there.
	eventually(t, "the new source's document", func() bool { return get(t, r).Value == 2 })
	if s := server.Client().HGet(t.Context(), key, "source").Val(); s != "other" {
		t.Errorf("the source in Redis is %q", s)
	}
	eventually(t, "memory is coherent", func() bool { return get(t, r).Status.Detail == DetailMemory })
	if n := src.loads.Load(); n != 3 {
		t.Errorf("%d loads, want one before, one under way and one after", n)
	}
}

func TestAPolicyThatIsNoneChangesNothing(t *testing.T) {
	o := options(newSource())
	_, r := replica(t, embeddedURL(t), o)
	for _, p := range []Policy{{}, {TTL: time.Second, StaleIfError: -1}, {TTL: time.Second, FetchTimeout: -1}} {
		if err := r.SetPolicy(t.Context(), p); err == nil {
			t.Errorf("%+v is taken", p)
		}
	}
	if got := *r.policy.Load(); got != o.policy() {
		t.Errorf("got %+v, want %+v", got, o.policy())
	}
}
