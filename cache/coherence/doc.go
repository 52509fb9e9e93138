// Package coherence holds the proof that what was purged is not served again. It has tests only.
//
// One run goes like this. A fleet of replicas, each a cache.Store of its own with its readers,
// stands before one redis-server process. Readers ask all replicas all the time; a purger raises a
// resource's version where it is loaded from, purges as an operator would, and notes when Redis
// acknowledged it. A checker keeps when each version was still being answered, and at the end holds
// one against the other. Between replica and server there may be a link, which can be cut, hung and
// slowed down. See docs/coherence.md for what is proven here and why it holds.
package coherence
