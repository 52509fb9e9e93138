package cache

// A link is how well the copy in memory is known to be what Redis holds.
type link int

const (
	linkTrusted link = iota // changes are received, and there was none
	linkLooked              // Redis was asked for this answer, or just before
	linkUnsure              // Redis can be asked
	linkAway                // Redis cannot be reached
)

// A standing is how good the copy in memory is.
type standing int

const (
	copyNone   standing = iota // or too old to be served
	copyStale                  // past the window in which it is served while it is refreshed
	copyAging                  // within that window
	copyEnding                 // fresh, for its last tenth
	copyFresh
)

// A mood is what is known of the loader.
type mood int

const (
	cmsWell mood = iota
	cmsFailing
	cmsPausing // and it is too early to try again
)

// An action is what a visitor gets.
type action int

const (
	doLook    action = iota // ask Redis, and decide again
	doAnswer                // from the copy
	doRenew                 // from the copy, and a load in the background
	doWait                  // the document of a load; the copy if that takes too long, or fails
	doFetch                 // the document of a load; an error if that takes too long, or fails
	doDecline               // the last failure
)

// serve is the table:
//
//	link \ copy  fresh   ending  aging  stale                    none
//	unsure       look    look    look   look                     look
//	others       answer  renew   renew  wait; renew if failing   fetch; decline if pausing
func serve(l link, c standing, m mood) action {
	switch {
	case l == linkUnsure:
		return doLook
	case c == copyFresh:
		return doAnswer
	case c == copyEnding, c == copyAging, c == copyStale && m != cmsWell:
		return doRenew
	case c == copyStale:
		return doWait
	case m == cmsPausing:
		return doDecline
	}
	return doFetch
}
