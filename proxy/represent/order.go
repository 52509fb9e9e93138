package represent

import (
	"crypto/sha256"
	"runtime"
	"slices"

	"vitrine/cache"
	"vitrine/proxy/negotiate"
	"vitrine/upstream/shape"
)

// banners is a banners document taken apart. The zero value is a document without orderings.
type banners struct {
	body []byte
	all  []shape.Banner
}

// order returns the indices of the banners in an ordering, or nil if they are in that order
// already. Banners with equal keys keep their order, also when descending.
func (b *banners) order(o negotiate.Ordering) []int32 {
	terms := o.Terms()
	if len(terms) == 0 {
		return nil
	}
	order := make([]int32, len(b.all))
	for i := range order {
		order[i] = int32(i)
	}
	compared := 0
	slices.SortStableFunc(order, func(x, y int32) int {
		if compared++; compared%1024 == 0 {
			runtime.Gosched() // let hits run
		}
		for _, t := range terms {
			c := b.all[x].Compare(&b.all[y], int(t.Field))
			if c != 0 {
				if t.Descending {
					return -c
				}
				return c
			}
		}
		return 0
	})
	if slices.IsSorted(order) {
		return nil
	}
	return order
}

func (b *banners) items(order []int32) Items { return Items{banners: b, order: order} }

// Items are the banners of a document in another order, each a part of the document's own bytes.
type Items struct {
	banners *banners
	order   []int32
}

// Pieces appends the pieces of the content from the item next on to dst, within its capacity. It
// returns the item to continue from, and done after the last. There must be room for four pieces.
func (it Items) Pieces(dst [][]byte, next int) (pieces [][]byte, after int, done bool) {
	for ; next < len(it.order) && cap(dst)-len(dst) >= 4; next++ {
		before := comma
		if next == 0 {
			before = opening
		}
		dst = append(dst, before, it.banners.all[it.order[next]].JSON)
	}
	if next == len(it.order) {
		return append(dst, closing), next, true
	}
	return dst, next, false
}

var opening, comma, closing = []byte("["), []byte(","), []byte("]")

// each calls f with all pieces.
func (it Items) each(f func(piece []byte)) {
	var room [64][]byte
	for next, done := 0, false; !done; {
		var pieces [][]byte
		pieces, next, done = it.Pieces(room[:0], next)
		for _, p := range pieces {
			f(p)
		}
	}
}

func (it Items) appendTo(dst []byte) []byte {
	it.each(func(piece []byte) { dst = append(dst, piece...) })
	return dst
}

func (it Items) tag() string {
	h := sha256.New()
	it.each(func(piece []byte) { h.Write(piece) })
	return cache.ETagOfSum(h.Sum(nil))
}
