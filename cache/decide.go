package cache

// An origin is where a copy in memory came from.
type origin int

const (
	originStored  origin = iota // Redis holds it
	originRefused               // this process loaded it, and Redis refused to store it
	originAlone                 // this process loaded it without Redis
	originLost                  // Redis held it, or may have, and has lost it
)

// A held is what decide needs to know of the copy in memory, and an offer that of Redis's document.
// Times are by Redis's clock, Unix milliseconds.
type held struct {
	exists  bool
	origin  origin
	fetched int64 // when its fetch began, or its fill
}

type offer struct {
	exists  bool // and can be used
	fresh   bool
	pinned  bool  // an operator has restored it
	fetched int64 // 0 if that is in the future, since its clock was set back
}

// A decision is what memory becomes: Redis's document, or nothing if it has none; or the copy,
// which is then confirmed at the place that Redis is at.
type decision struct {
	keep   bool
	origin origin // of the copy that is kept
	due    bool   // it is to be fetched again
}

// decide decides between the copy and what Redis has. A copy that Redis stored is replaced by
// Redis's, unless it was lost.
func decide(c held, f fate, r offer) decision {
	switch {
	case !c.exists || f == fatePurged:
		return decision{}
	case r.exists && r.pinned && c.origin != originLost && f != fateLost: // else an older pin has come back
		return decision{}
	case r.exists && (r.fetched >= c.fetched || r.fetched == 0 && c.origin == originStored && f == fateKept):
		return decision{}
	case r.exists && r.fresh && c.origin != originRefused && c.origin != originLost && f != fateLost:
		return decision{}
	case c.origin == originRefused && f == fateKept: // Redis never held it
		return decision{keep: true, origin: originRefused}
	case c.origin == originAlone && f == fateKept:
		return decision{keep: true, origin: originAlone, due: true}
	}
	return decision{keep: true, origin: originLost, due: true}
}
