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
	script  any // the context of the last one that has written
}

// fits reports whether there is room for a client's command. What is overwritten or removed makes
// room at the next count.
func (m *memory) fits(cmd string, args []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+sizeOf(args) > m.most && time.Since(m.counted) > countEvery {
		m.counted = time.Now()
		m.mu.Unlock() // counting waits for scripts, and they for this
		used := m.count()
		m.mu.Lock()
		m.used = used
	}
	return isScript(cmd) || m.take(cmd, args) // a script is asked when it writes
}

// fitsScript does so for what a script writes. As in Redis its first write decides, so that none is
// carried out by half.
func (m *memory) fitsScript(script any, cmd string, args []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.take(cmd, args) && m.script != script {
		return false
	}
	m.script = script
	return true
}

func (m *memory) take(cmd string, args []string) bool {
	switch cmd {
	case "DEL", "UNLINK", "FLUSHALL", "FLUSHDB", "EXPIRE", "EXPIREAT", "PEXPIRE", "PEXPIREAT", "PERSIST", "GETDEL", "HDEL":
		return true // they store nothing
	}
	size, most := sizeOf(args), m.most
	if size-len(args)*storedCost-keyCost <= small {
		most += reserve
	}
	if m.used+size > most {
		return false
	}
	m.used += size
	return true
}

// sizeOf is what a command stores at most: no command makes more than one key.
func sizeOf(words []string) int {
	size := keyCost
	for _, w := range words {
		size += len(w) + storedCost
	}
	return size
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
