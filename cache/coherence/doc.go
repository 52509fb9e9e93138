// Package coherence tries, for tests, whether what was purged is served again, and whether a copy
// that nobody purged is lost.
//
// One run goes like this. A fleet of replicas, each a cache.Store of its own with its readers,
// stands before one redis-server process. Readers ask all replicas all the time; a purger raises a
// resource's version where it is loaded from, purges as an operator would, and notes when Redis
// acknowledged it. A checker keeps when each version was still being answered, and at the end holds
// one against the other. Between replica and server there may be a link, which can be cut, hung and
// slowed down, and the CMS may fail. See docs/coherence.md for what is tried and why it holds. The
// tests here are a short run; .ci/long/coherence has the campaigns.
package coherence
