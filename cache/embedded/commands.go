package embedded

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// served are the commands that vitrine uses, and those that operators inspect and purge with.
// Others could allocate or wait without limit: SETRANGE at a large offset, BLPOP, COPY, SUBSCRIBE.
var served = strings.Fields(`
		CLIENT COMMAND ECHO HELLO INFO PING QUIT SELECT TIME
		DBSIZE DEL EXISTS EXPIRE EXPIREAT FLUSHALL FLUSHDB KEYS PERSIST PEXPIRE PEXPIREAT PTTL RANDOMKEY RENAME RENAMENX SCAN
		TOUCH TTL TYPE UNLINK
		GET GETDEL GETSET MGET MSET SET SETNX STRLEN
		HDEL HEXISTS HGET HGETALL HINCRBY HKEYS HLEN HMGET HMSET HSCAN HSET HSETNX HSTRLEN HVALS
		EVAL EVAL_RO EVALSHA EVALSHA_RO SCRIPT`)

// commands decides which commands run, and recovers from their panics.
type commands struct {
	track   *tracking
	memory  *memory
	scripts func(text string) bool // whether a script is allowed: they have no time limit
	log     *slog.Logger
	runID   string           // names this store, so that its end is not taken for a purge
	panics  func(cmd string) // for a test; nil otherwise
}

// errFull is what Redis says.
const errFull = "OOM command not allowed when used memory > 'maxmemory'."

// maxPattern is the length of a pattern in bytes. Miniredis makes a regular expression of it, and
// matches that with all names under its lock.
const maxPattern = 256

// hook sees each command before miniredis does: a client's, which is passed on, and what a script
// calls, on a peer of its own. A script's changes are announced when it has ended.
func (s *commands) hook(c *server.Peer, cmd string, args ...string) (handled bool) {
	if _, isClient := s.track.trackers.Load(c); isClient || len(args) == 0 || !s.track.writes(cmd) {
		return false
	}
	s.track.written.Store(args[0], true)
	if !s.memory.fitsScript(c.Ctx, cmd, args) {
		c.WriteError(errFull)
		return true
	}
	return false
}

// run runs a client's command.
func (s *commands) run(c *server.Peer, words []string) {
	cmd, args := strings.ToUpper(words[0]), words[1:]
	defer func() {
		if fault := recover(); fault != nil {
			s.log.Error("a command failed in the embedded store", "command", cmd, "panic", fault, "stack", string(debug.Stack()))
			c.WriteError("ERR internal error")
		}
	}()
	if s.panics != nil {
		s.panics(cmd)
	}
	switch {
	case !slices.Contains(served, cmd):
		c.WriteError(fmt.Sprintf("ERR unknown command '%.32s', the embedded store has those that vitrine and its operator need", cmd))
	case s.isForeign(cmd, args):
		c.WriteError("NOPERM the embedded store runs vitrine's own scripts only")
	case (cmd == "KEYS" || strings.HasSuffix(cmd, "SCAN")) && slices.ContainsFunc(args, func(arg string) bool { return len(arg) > maxPattern }):
		c.WriteError("ERR too long a pattern for the embedded store")
	case cmd == "SELECT" && len(args) == 1 && args[0] != "0":
		c.WriteError("ERR DB index is out of range")
	case s.track.writes(cmd) && !s.memory.fits(cmd, args):
		c.WriteError(errFull)
	case cmd == "INFO":
		c.WriteBulk("# Server\r\nrun_id:" + s.runID + "\r\n# Replication\r\nrole:master\r\n")
	default:
		s.track.run(c, cmd, args)
	}
}

// isForeign reports whether a command has a script that is not vitrine's.
func (s *commands) isForeign(cmd string, args []string) bool {
	switch {
	case len(args) == 0:
		return false
	case cmd == "EVAL" || cmd == "EVAL_RO":
		return !s.scripts(args[0])
	}
	return cmd == "SCRIPT" && strings.EqualFold(args[0], "LOAD") && len(args) > 1 && !s.scripts(args[1])
}
