//go:build race

package testkit

// Race says whether the race detector is on. It takes memory and time, and makes sync.Pool forget
// at random.
const Race = true
