//go:build race

package testkit

// Race: the race detector is on. It takes memory and time, and makes sync.Pool forget at random.
const Race = true
