package cache

import "testing"

func TestDecideKeepsTheLaterOfTwo(t *testing.T) {
	for n := range 2 * 4 * 3 * 2 * 2 * 2 * 3 {
		i := n
		pick := func(of int) int { v := i % of; i /= of; return v }
		c := held{exists: pick(2) > 0, origin: origin(pick(4)), fetched: 2}
		f := fate(pick(3))
		r := offer{exists: pick(2) > 0, fresh: pick(2) > 0, pinned: pick(2) > 0, fetched: int64(pick(3)) + 1}
		d := decide(c, f, r)
		want := c.exists && f != fatePurged // kept, but where Redis has a better one:
		better := r.pinned && c.origin != originLost || r.fresh && (c.origin == originStored || c.origin == originAlone)
		if r.exists && (r.fetched >= c.fetched || f == fateKept && better) {
			want = false
		}
		from := c.origin // of what is kept
		if from == originStored || f == fateLost {
			from = originLost
		}
		if d.keep != want || want && (d.origin != from || d.due != (from != originRefused)) {
			t.Errorf("copy %+v, fate %d, redis %+v: %+v", c, f, r, d)
		}
	}
}

// TestServeIsItsTable has the table of serve, a row for each mood of the loader.
func TestServeIsItsTable(t *testing.T) {
	want := map[standing][3]action{ // well, failing, pausing
		copyFresh:  {doAnswer, doAnswer, doAnswer},
		copyEnding: {doRenew, doRenew, doRenew},
		copyAging:  {doRenew, doRenew, doRenew},
		copyStale:  {doWait, doRenew, doRenew},
		copyNone:   {doFetch, doFetch, doDecline},
	}
	for c, row := range want {
		for m, do := range row {
			for l, do := range map[link]action{linkTrusted: do, linkLooked: do, linkUnsure: doLook, linkAway: do} {
				if got := serve(l, c, mood(m)); got != do {
					t.Errorf("link %d, copy %d, loader %d: %d, want %d", l, c, m, got, do)
				}
			}
		}
	}
}
