package cache

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// sighted collects what a process sees, in words.
type sighted struct {
	mu  sync.Mutex // guards all
	all []string
}

func (s *sighted) see(v Sight) {
	text := fmt.Sprintf("%d", v.Seq)
	if v.Document != nil {
		text += " " + v.Document.ETag
	}
	for word, holds := range map[string]bool{" purged": v.Purged, " alone": v.Alone, fmt.Sprintf(" failures:%d", v.Failures): v.Failures > 0} {
		if holds {
			text += word
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, text)
}

// has waits until what was seen since the last call includes each of these.
func (s *sighted) has(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	eventually(t, "the process sees "+strings.Join(want, ", "), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		got = slices.Clone(s.all)
		return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(got, w) })
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}

// TestEveryProcessSeesWhatHappensToADocument: fills, purges with the number that they have,
// failures and the recovery, whichever process they are of; and one that starts sees a purge that
// nobody did.
func TestEveryProcessSeesWhatHappensToADocument(t *testing.T) {
	b := anyStore(t)
	src, client := newSource(), b.client
	process := func() (*Reader[int64], *sighted) {
		s := &sighted{}
		_, r := readerWith(t, Options{URL: b.url, Events: Events{Seen: s.see}}, options(src))
		return r, s
	}
	first, a := process()
	second, z := process()
	get(t, first)
	get(t, second)
	v1, v2 := " "+ETag(body(1)), " "+ETag(body(2))
	a.has(t, "2"+v1) // 1 is the stub of its lease
	z.has(t, "2"+v1)

	must(t, client.Del(t.Context(), "vitrine:banners").Err())
	a.has(t, "3 purged")
	z.has(t, "3 purged")
	src.version.Store(2)
	get(t, second)
	a.has(t, "4"+v2)
	z.has(t, "4"+v2)

	src.fail(errors.New("the source is down"))
	must(t, client.HSet(t.Context(), "vitrine:banners", "fresh_until", 0).Err())
	a.has(t)
	eventually(t, "two failures are seen", func() bool {
		first.refresh(t.Context())
		a.mu.Lock()
		defer a.mu.Unlock()
		return slices.Contains(a.all, "4"+v2+" failures:2")
	})
	src.fail(nil)
	a.has(t)
	eventually(t, "the recovery is seen", func() bool {
		first.refresh(t.Context())
		a.mu.Lock()
		defer a.mu.Unlock()
		return slices.Contains(a.all, "5"+v2)
	})

	must(t, first.store.Close())
	must(t, second.store.Close())
	must(t, client.Del(t.Context(), "vitrine:banners").Err())
	third, c := process()
	_, err := third.ask(0)
	must(t, err)
	c.has(t, "6 purged")
}

func TestADocumentLoadedAloneIsSeenAsSuch(t *testing.T) {
	src, s := newSource(), &sighted{}
	_, r := readerWith(t, Options{URL: "redis://127.0.0.1:1", Timeout: 100 * time.Millisecond, Events: Events{Seen: s.see}}, options(src))
	get(t, r)
	s.has(t, "0 "+ETag(body(1))+" alone")
}
