package embedded

import (
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"vitrine/cache/lease"
)

const (
	// maxStored bounds what is stored, as maxmemory does, and maxPending the commands that are being
	// received on all connections together.
	maxStored, maxPending = 256 << 20, 256 << 20
	// maxQueued bounds the commands of one MULTI.
	maxQueued = 64 << 10
	// wordCost is the memory of a word besides its bytes.
	wordCost = 64
	// storedCost is what a name or a value that is stored counts besides its bytes: more than it
	// takes, since miniredis walks through all keys, under its lock, to expire one.
	storedCost = 4 << 10
	// countEvery is how often what is stored is counted, at most.
	countEvery = time.Second
)

func sizeOf(words []string) int {
	size := 0
	for _, w := range words {
		size += len(w) + wordCost
	}
	return size
}

// frees lists commands that store nothing, though they may write.
func frees(cmd string, args []string) bool {
	switch cmd {
	case "DEL", "UNLINK", "FLUSHALL", "FLUSHDB", "EXPIRE", "EXPIREAT", "PEXPIRE", "PEXPIREAT", "PERSIST", "GETDEL", "HDEL",
		"MULTI", "EXEC", "DISCARD":
		return true
	case "EVAL", "EVALSHA":
		return len(args) > 0 && lease.Frees(args[0])
	}
	return false
}

// memory bounds what is stored.
type memory struct {
	redis *miniredis.Miniredis

	mu      sync.Mutex // guards the fields below
	most    int
	used    int // at most: everything written since counted
	counted time.Time
}

// fits reports whether there is room for a write of that size. What is overwritten or removed makes
// room at the next count.
func (m *memory) fits(size int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+size > m.most && time.Since(m.counted) > countEvery {
		m.used, m.counted = m.count(), time.Now()
	}
	if m.used+size > m.most {
		return false
	}
	m.used += size
	return true
}

// count is the size of what is stored: texts and hashes, since no command makes anything else. A key
// that is gone meanwhile counts as empty.
func (m *memory) count() int {
	size := 0
	for _, key := range m.redis.Keys() {
		size += len(key) + storedCost
		if m.redis.Type(key) == "string" {
			text, _ := m.redis.Get(key)
			size += len(text) + storedCost
			continue
		}
		names, _ := m.redis.HKeys(key)
		for _, name := range names {
			size += len(name) + len(m.redis.HGet(key, name)) + 2*storedCost
		}
	}
	return size
}
