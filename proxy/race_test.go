//go:build race

package proxy

// underRace: the race detector makes sync.Pool forget at random, so that allocations cannot be
// counted.
const underRace = true
