// Package coherence tests whether purged content is served again, and whether a copy that nobody
// purged is lost.
//
// One run goes like this:
//
//  1. a fleet of replicas, each a cache.Store with its readers, starts in front of one redis-server
//     process, over links that can be cut, hung and slowed down;
//  2. readers ask all replicas all the time, while the loader fails and the link breaks;
//  3. a purger raises the version of a resource at its source, purges as an operator would, and
//     notes when Redis acknowledged it;
//  4. a checker records when each version was last requested and answered, and at the end compares
//     the two.
//
// See docs/coherence.md for the guarantees. The tests here are a short run; .ci/long/coherence has
// the campaigns.
package coherence
