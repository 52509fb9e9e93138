package embedded

import (
	"slices"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
)

// tracking emulates CLIENT TRACKING ON BCAST: it notifies connections of changes to keys under
// their prefixes.
type tracking struct {
	server *server.Server // of miniredis, which forgets it while it closes

	trackers sync.Map // by connection, a *server.Peer, the prefixes it tracks, a []string, nil for none
	written  sync.Map // the keys that scripts have written to since they were announced

	announcing sync.Mutex // held while those are announced: no reply comes before that
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
		t.written.Range(func(written, _ any) bool {
			t.written.Delete(written)
			key, _ := written.(string)
			t.changed(key)
			return true
		})
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
	t.trackers.Store(c, prefixes)
	c.WriteOK()
}

// changed notifies every connection that tracks one of the keys.
func (t *tracking) changed(keys ...string) {
	t.notify(func(c *server.Peer, prefixes []string) {
		for _, key := range keys {
			if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
				push(c, func(w *server.Writer) { w.WriteLen(1); w.WriteBulk(key) })
			}
		}
	})
}

// flushed notifies every tracking connection that any key may have changed.
func (t *tracking) flushed() {
	t.notify(func(c *server.Peer, _ []string) {
		push(c, func(w *server.Writer) { w.WriteNull() })
	})
}

// notify calls f with each tracking connection.
func (t *tracking) notify(f func(c *server.Peer, prefixes []string)) {
	t.trackers.Range(func(c, tracked any) bool {
		peer, _ := c.(*server.Peer)
		if prefixes, _ := tracked.([]string); prefixes != nil {
			f(peer, prefixes)
		}
		return true
	})
}

func push(c *server.Peer, keys func(*server.Writer)) {
	c.Block(func(w *server.Writer) {
		w.WritePushLen(2)
		w.WriteBulk("invalidate")
		keys(w)
		w.Flush()
	})
}
