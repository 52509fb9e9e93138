package coherence

import (
	"testing"
	"time"

	"vitrine/cache/redistest"
)

// TestRestoresAndPurgesAtRandomMoments is a short run; .ci/long/coherence has a long one.
func TestRestoresAndPurgesAtRandomMoments(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	origins := NewOrigins(3*time.Millisecond, "catalogue")
	nodes := StartFleet(t, server.URL(), 3, origins, Setup{Timeout: Patient})
	c := &Restores{Key: "catalogue", Origin: origins["catalogue"], Nodes: nodes, Client: server.Client()}
	c.Run(t, 80)
}

// TestACheckerOfRestoresFindsWhatMustNotBe gives it answers that a purge and a restore forbid.
func TestACheckerOfRestoresFindsWhatMustNotBe(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	c := &Restores{done: []deed{
		{kind: "hard", version: 5, sent: at(100), acked: at(101)},
		{kind: "restore", version: 2, sent: at(300), acked: at(301)},
		{kind: "hard", version: 6, sent: at(500), acked: at(501)},
		{kind: "restore", version: 3, sent: at(700), overtaken: true},
		{kind: "hard", version: 7, sent: at(701), acked: at(702)},
	}}
	answer := func(version int64, ms int, detail string) given {
		g := given{version: version, asked: at(ms), ended: at(ms + 1)}
		g.status.Detail = detail
		return g
	}
	for _, a := range []struct {
		given
		fine bool
	}{
		{answer(4, 140, "memory"), true}, {answer(4, 152, "memory"), false}, {answer(5, 152, "memory"), true},
		{answer(2, 250, "pinned"), false}, {answer(2, 310, "pinned"), true}, {answer(5, 310, "memory"), true},
		{answer(5, 360, "memory"), false}, {answer(2, 360, "memory"), false}, {answer(2, 360, "pinned"), true},
		{answer(2, 540, "pinned"), true}, {answer(2, 560, "pinned"), false}, {answer(6, 560, "memory"), true},
		{answer(3, 740, "pinned"), true}, {answer(3, 760, "pinned"), false},
	} {
		if wrong := c.wrong(a.given); (wrong == "") != a.fine {
			t.Errorf("%+v: %q", a.given, wrong)
		}
	}
}
