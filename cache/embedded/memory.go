package embedded

import (
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const (
	// maxStored bounds what is stored, as maxmemory does, and reserve what a small write may use
	// beyond: leases, and marks that an operator sets, find room where documents do not.
	maxStored, reserve, small = 240 << 20, 16 << 20, 4 << 10
	// storedCost is what a name or a value counts besides its bytes, and keyCost what a key does: more
	// than they take, since miniredis walks through all keys whenever its clock moves.
	storedCost, keyCost = 4 << 10, 64 << 10
	// countEvery is how often what is stored is counted, at most.
	countEvery = time.Second
)

// memory bounds what is stored.
type memory struct {
	redis *miniredis.Miniredis

	mu      sync.Mutex // guards the fields below
	most    int
	used    int // at most: everything written since counted
	counted time.Time
}

// fits reports whether there is room for a client's command. What is overwritten or removed makes
// room at the next count. A script writes its arguments at most: one without a document always fits,
// since vitrine's write a few fields of few keys.
func (m *memory) fits(cmd string, args []string) bool {
	most := m.most
	switch cmd {
	case "DEL", "UNLINK", "FLUSHALL", "FLUSHDB", "EXPIRE", "EXPIREAT", "PEXPIRE", "PEXPIREAT", "PERSIST", "GETDEL", "HDEL":
		return true // they store nothing
	case "EVAL", "EVALSHA":
		if args = args[min(len(args), 1):]; lengths(args) <= small {
			return true
		}
	default:
		if lengths(args) <= small {
			most += reserve
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	size := lengths(args) + len(args)*storedCost + keyCost // no command makes more than one key
	if m.used+size > most && time.Since(m.counted) > countEvery {
		m.counted = time.Now()
		m.mu.Unlock() // counting waits for scripts
		used := m.count()
		m.mu.Lock()
		m.used = used
	}
	if m.used+size > most {
		return false
	}
	m.used += size
	return true
}

func lengths(words []string) (bytes int) {
	for _, w := range words {
		bytes += len(w)
	}
	return bytes
}

// count is the size of what is stored: texts and hashes, since no command makes anything else. A
// key that is gone meanwhile counts as empty.
func (m *memory) count() int {
	size := 0
	for _, key := range m.redis.Keys() {
		size += len(key) + storedCost + keyCost
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
