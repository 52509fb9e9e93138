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
		if r.exists && r.fetched >= c.fetched {
			want = false
		} else if r.exists && r.pinned && f == fateKept && c.origin != originLost {
			want = false
		} else if r.exists && r.fresh && f == fateKept && (c.origin == originStored || c.origin == originAlone) {
			want = false
		}
		from := c.origin // of what is kept
		if from == originStored || from == originAlone && f == fateLost {
			from = originLost
		}
		due := from != originRefused || f == fateLost
		if d.keep != want || want && (d.origin != from || d.due != due) {
			t.Errorf("copy %+v, fate %d, redis %+v: %+v", c, f, r, d)
		}
	}
}
