package embedded

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// tracking emulates CLIENT TRACKING ON BCAST: it notifies connections of changes to keys under
// their prefixes.
type tracking struct {
	server *server.Server // of miniredis, which forgets it while it closes

	announcing sync.Mutex // held while what scripts wrote is announced: no reply comes before that

	mu       sync.Mutex                // guards the maps
	trackers map[*server.Peer][]string // by connection, the prefixes it tracks, nil for none
	written  map[string]bool           // the keys that scripts have written to since they were announced
}

func newTracking(redis *miniredis.Miniredis) *tracking {
	return &tracking{
		server:   redis.Server(),
		trackers: map[*server.Peer][]string{},
		written:  map[string]bool{},
	}
}

// run has miniredis run a command of a connection, and notifies of its changes.
func (t *tracking) run(c *server.Peer, cmd string, args []string) {
	if cmd == "CLIENT" && len(args) > 0 && strings.EqualFold(args[0], "TRACKING") {
		t.command(c, args[1:])
		return
	}
	t.server.Dispatch(c, append([]string{cmd}, args...))
	t.announce(cmd, args)
}

// announce notifies of what a command has changed. An argument that merely looks like a key costs a
// needless check.
func (t *tracking) announce(cmd string, args []string) {
	switch {
	case cmd == "FLUSHALL" || cmd == "FLUSHDB":
		t.flushed()
	case strings.HasPrefix(cmd, "EVAL"):
		t.announcing.Lock()
		defer t.announcing.Unlock()
		t.mu.Lock()
		keys := slices.Collect(maps.Keys(t.written))
		clear(t.written)
		t.mu.Unlock()
		t.changed(keys...)
	case t.writes(cmd):
		t.changed(args...)
	}
}

// writes reports whether a command may change a key.
func (t *tracking) writes(cmd string) bool {
	switch cmd {
	case "HELLO", "AUTH", "CLIENT", "PING", "ECHO", "SELECT", "QUIT", "INFO", "COMMAND", "SCRIPT", "TIME":
		return false // miniredis marks only those that read keys
	}
	return !t.server.IsReadOnlyCommand(cmd)
}

// command is CLIENT TRACKING, in broadcast mode only.
func (t *tracking) command(c *server.Peer, args []string) {
	ok := c.Resp3 && len(args) >= 2 && len(args)%2 == 0 && strings.EqualFold(args[0], "ON") && strings.EqualFold(args[1], "BCAST")
	var prefixes []string
	for i := 2; ok && i < len(args); i += 2 {
		ok = strings.EqualFold(args[i], "PREFIX")
		prefixes = append(prefixes, args[i+1])
	}
	if !ok {
		c.WriteError("ERR the embedded store tracks on RESP3 only, with CLIENT TRACKING ON BCAST [PREFIX prefix ...]")
		return
	}
	if len(prefixes) == 0 {
		prefixes = []string{""}
	}
	t.track(c, prefixes)
	c.WriteOK()
}

func (t *tracking) track(c *server.Peer, prefixes []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trackers[c] = prefixes
}

func (t *tracking) forget(c *server.Peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.trackers, c)
}

func (t *tracking) isClient(c *server.Peer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.trackers[c]
	return ok
}

// wrote notes a key that a script writes to.
func (t *tracking) wrote(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written[key] = true
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
	listeners := maps.Clone(t.trackers)
	maps.DeleteFunc(listeners, func(_ *server.Peer, prefixes []string) bool { return prefixes == nil })
	return listeners
}

func push(c *server.Peer, keys func(*server.Writer)) {
	c.Block(func(w *server.Writer) {
		w.WritePushLen(2)
		w.WriteBulk("invalidate")
		keys(w)
		w.Flush()
	})
}
