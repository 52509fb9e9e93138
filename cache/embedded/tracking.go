package embedded

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// tracking emulates CLIENT TRACKING ON BCAST: it notifies connections of changes to keys under
// their prefixes.
type tracking struct {
	redis  *miniredis.Miniredis
	server *server.Server // of redis, which forgets it while it closes

	mu       sync.Mutex                // guards the maps
	trackers map[*server.Peer][]string // by connection, the prefixes it tracks
	queued   map[*server.Peer][]string // by connection in MULTI, the keys that EXEC will change
	queues   map[*server.Peer]int      // by connection in MULTI, the size of what EXEC will run
	peers    map[*server.Peer]bool     // connections, and whether the hook has passed on a command of theirs
}

func newTracking(redis *miniredis.Miniredis) *tracking {
	return &tracking{
		redis:    redis,
		server:   redis.Server(),
		trackers: map[*server.Peer][]string{},
		queued:   map[*server.Peer][]string{},
		queues:   map[*server.Peer]int{},
		peers:    map[*server.Peer]bool{},
	}
}

// run has miniredis run a command of a connection, and notifies of its changes.
func (t *tracking) run(c *server.Peer, cmd string, args []string) {
	t.mu.Lock()
	watched := len(t.trackers) > 0
	t.mu.Unlock()
	switch {
	case cmd == "CLIENT" && len(args) > 0 && strings.EqualFold(args[0], "TRACKING"):
		t.command(c, args[1:])
		return
	case !watched || t.redis.IsReadOnlyCommand(cmd) || !writes(cmd):
		t.pass(c, cmd, args)
		return
	}

	script := strings.HasPrefix(cmd, "EVAL")
	keys := t.keysIn(args)
	var before []state
	if script {
		before = t.states(keys)
	}
	t.pass(c, cmd, args)
	switch {
	case cmd == "FLUSHALL" || cmd == "FLUSHDB":
		t.flushed()
	case cmd == "MULTI":
		t.queue(c, nil)
	case cmd == "DISCARD":
		t.unqueue(c)
	case cmd == "EXEC":
		t.changed(t.unqueue(c)...)
	case t.inMulti(c):
		t.queue(c, keys)
	case script:
		// A script that only reads must not look like a write, or reading would invalidate what was
		// read.
		t.changed(differing(keys, before, t.states(keys))...)
	default:
		t.changed(keys...)
	}
}

// enters reports whether the command comes from a connection, not from the hook itself or a script.
// A script calls on a peer of its own, made with a context, under miniredis's lock; a connection
// has none before its first command.
func (t *tracking) enters(c *server.Peer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	passing, known := t.peers[c]
	if !known && c.Ctx == nil {
		t.peers[c] = false
		c.OnDisconnect(func() { t.forget(c) })
		return true
	}
	return known && !passing
}

// pass lets miniredis run the command.
func (t *tracking) pass(c *server.Peer, cmd string, args []string) {
	t.setPassing(c, true)
	defer t.setPassing(c, false)
	t.server.Dispatch(c, append([]string{cmd}, args...))
}

func (t *tracking) setPassing(c *server.Peer, passing bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.peers[c] = passing
}

// writes lists commands that cannot change a key, though miniredis does not mark them read-only.
func writes(cmd string) bool {
	switch cmd {
	case "HELLO", "AUTH", "CLIENT", "PING", "ECHO", "SELECT", "QUIT", "INFO", "COMMAND", "SCRIPT", "TIME":
		return false
	}
	return true
}

// command is CLIENT TRACKING, in broadcast mode only.
func (t *tracking) command(c *server.Peer, args []string) {
	if len(args) == 0 {
		c.WriteError("ERR wrong number of arguments for 'client|tracking' command")
		return
	}
	if strings.EqualFold(args[0], "OFF") {
		t.mu.Lock()
		delete(t.trackers, c)
		t.mu.Unlock()
		c.WriteOK()
		return
	}
	var prefixes []string
	broadcast := false
	for i := 1; i < len(args); i++ {
		switch {
		case strings.EqualFold(args[i], "BCAST"):
			broadcast = true
		case strings.EqualFold(args[i], "PREFIX") && i+1 < len(args):
			i++
			prefixes = append(prefixes, args[i])
		case strings.EqualFold(args[i], "NOLOOP"):
		default:
			c.WriteError("ERR the embedded store tracks in broadcast mode only: CLIENT TRACKING ON BCAST [PREFIX prefix ...]")
			return
		}
	}
	if !broadcast || !c.Resp3 {
		c.WriteError("ERR the embedded store tracks in broadcast mode on RESP3 only")
		return
	}
	if len(prefixes) == 0 {
		prefixes = []string{""}
	}
	t.mu.Lock()
	t.trackers[c] = prefixes
	t.mu.Unlock()
	c.WriteOK()
}

func (t *tracking) forget(c *server.Peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.trackers, c)
	delete(t.queued, c)
	delete(t.queues, c)
	delete(t.peers, c)
}

// changed notifies every connection that tracks one of the keys.
func (t *tracking) changed(keys ...string) {
	for c, prefixes := range t.listeners() {
		for _, key := range keys {
			if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
				push(c, func(w *server.Writer) { w.WriteLen(1); w.WriteBulk(key) })
			}
		}
	}
}

// flushed notifies every tracking connection that any key may have changed.
func (t *tracking) flushed() {
	for c := range t.listeners() {
		push(c, func(w *server.Writer) { w.WriteNull() })
	}
}

func (t *tracking) listeners() map[*server.Peer][]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.trackers)
}

func push(c *server.Peer, keys func(*server.Writer)) {
	c.Block(func(w *server.Writer) {
		w.WritePushLen(2)
		w.WriteBulk("invalidate")
		keys(w)
		w.Flush()
	})
}

// keysIn returns the arguments under a tracked prefix. One that merely looks like a key costs a
// needless check.
func (t *tracking) keysIn(args []string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var keys []string
	for _, arg := range args {
		for _, prefixes := range t.trackers {
			if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(arg, p) }) && !slices.Contains(keys, arg) {
				keys = append(keys, arg)
			}
		}
	}
	return keys
}

func (t *tracking) queue(c *server.Peer, keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queued[c] = append(t.queued[c], keys...)
}

func (t *tracking) unqueue(c *server.Peer) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys := t.queued[c]
	delete(t.queued, c)
	return keys
}

func (t *tracking) inMulti(c *server.Peer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, in := t.queued[c]
	return in
}

// state is everything about a key that a script can change.
type state struct {
	kind   string
	ttl    time.Duration
	fields map[string]string
}

func (t *tracking) states(keys []string) []state {
	states := make([]state, len(keys))
	for i, key := range keys {
		s := state{kind: t.redis.Type(key), ttl: t.redis.TTL(key)}
		if s.kind == "hash" {
			s.fields = map[string]string{}
			names, err := t.redis.HKeys(key)
			if err != nil {
				continue // it expired in between: differs from any hash
			}
			for _, name := range names {
				s.fields[name] = t.redis.HGet(key, name)
			}
		}
		states[i] = s
	}
	return states
}

func differing(keys []string, before, after []state) []string {
	var changed []string
	for i, key := range keys {
		a, b := before[i], after[i]
		opaque := a.kind != "" && a.kind != "hash" // other kinds are not compared
		if opaque || a.kind != b.kind || a.ttl != b.ttl || !maps.Equal(a.fields, b.fields) {
			changed = append(changed, key)
		}
	}
	return changed
}
