package shape

import (
	"math/bits"
	"slices"

	"vitrine/upstream/guard"
)

// A tally counts a list while it is read.
type tally struct {
	items int
	ids   []int64
	with  [64]int // items in which each bit was noted
}

// note counts an item as it was written.
func (t *tally) note(item []byte, has uint64) {
	t.items++
	if id, err := idOf(item); err == nil {
		t.ids = append(t.ids, id)
	}
	for ; has != 0; has &= has - 1 {
		t.with[bits.TrailingZeros64(has)]++
	}
}

// survey is what came of it.
func (t *tally) survey(p part, permanent bool) guard.List {
	slices.Sort(t.ids)
	return guard.List{
		Path: p.path, Permanent: permanent, Received: t.items, Items: t.items,
		IDs: slices.Clip(slices.Compact(t.ids)), Fields: p.of.bits, With: slices.Clone(t.with[:len(p.of.bits)]),
	}
}
