package metrics

import (
	"slices"
	"sync/atomic"

	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// suspicionKinds are the values of the label kind.
var suspicionKinds = [...]upstream.SuspicionKind{upstream.Emptied, upstream.Drafts}

// suspicions counts, by resource and kind.
type suspicions [Other][len(suspicionKinds)]atomic.Uint64

// Suspected counts a document of the CMS that is served although it looks wrong.
func (m *Meter) Suspected(r shape.Resource, kind upstream.SuspicionKind) {
	t, i := TargetOf(r), slices.Index(suspicionKinds[:], kind)
	if t == Other || i < 0 {
		return
	}
	m.suspicions[t][i].Add(1)
}
