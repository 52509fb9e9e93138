package represent

import (
	"crypto/sha256"
	"runtime"
	"slices"

	"vitrine/cache"
	"vitrine/proxy/negotiate"
	"vitrine/upstream/shape"
)

// banners are the items of a banners document; of another, none.
type banners []shape.Banner

// order returns the indices of the banners in an ordering, or nil if they are in that order
// already. Banners with equal keys keep their order, also when descending.
func (b banners) order(o negotiate.Ordering) []int32 {
	terms := o.Terms()
	if len(terms) == 0 {
		return nil
	}
	order := make([]int32, len(b))
	for i := range order {
		order[i] = int32(i)
	}
	compared := 0
	slices.SortStableFunc(order, func(x, y int32) int {
		if compared++; compared%1024 == 0 {
			runtime.Gosched() // let hits run
		}
		for _, t := range terms {
			c := b[x].Compare(&b[y], int(t.Field))
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

// items are the banners of a document in another order, each a part of the document's own bytes.
type items struct {
	banners banners
	order   []int32
}

// pieces is the number of pieces of the content: the items, and what is before and after each.
func (it items) pieces() int { return 2*len(it.order) + 1 }

// piece is one of them.
func (it items) piece(i int) []byte {
	switch {
	case i%2 == 1:
		return it.banners[it.order[i/2]].JSON
	case i == 0:
		return opening
	case i == 2*len(it.order):
		return closing
	}
	return comma
}

var opening, comma, closing = []byte("["), []byte(","), []byte("]")

func (it items) appendTo(dst []byte) []byte {
	for i := range it.pieces() {
		dst = append(dst, it.piece(i)...)
	}
	return dst
}

func (it items) tag() string {
	h := sha256.New()
	for i := range it.pieces() {
		h.Write(it.piece(i))
	}
	return cache.ETagOfSum(h.Sum(nil))
}
