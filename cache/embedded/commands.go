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
		AUTH CLIENT COMMAND ECHO HELLO INFO PING QUIT SELECT TIME
		DBSIZE DEL EXISTS EXPIRE EXPIREAT FLUSHALL FLUSHDB KEYS PERSIST PEXPIRE PEXPIREAT PTTL RANDOMKEY RENAME RENAMENX SCAN
		TOUCH TTL TYPE UNLINK
		GET GETDEL GETSET MGET MSET SET SETNX STRLEN
		HDEL HEXISTS HGET HGETALL HINCRBY HKEYS HLEN HMGET HMSET HSCAN HSET HSETNX HSTRLEN HVALS
		DISCARD EXEC MULTI
		EVAL EVAL_RO EVALSHA EVALSHA_RO SCRIPT`)

// commands decides which commands run, and recovers from their panics.
type commands struct {
	track   *tracking
	memory  *memory
	scripts func(text string) bool // whether a script is allowed: scripts have no time limit
	log     *slog.Logger
	run     string           // names this store, so that its end is not taken for a purge
	panics  func(cmd string) // for a test; nil otherwise
}

// hook sees each command before miniredis does, and reports whether it has handled it.
func (s *commands) hook(c *server.Peer, cmd string, args ...string) (handled bool) {
	if !s.track.enters(c, cmd, args) {
		return false // of the hook itself, or of a script
	}
	handled = true
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
	case isCostly(cmd, args):
		c.WriteError("ERR too costly a pattern for the embedded store")
	case cmd == "SELECT" && len(args) == 1 && args[0] != "0":
		c.WriteError("ERR DB index is out of range")
	case (cmd == "CLIENT" || cmd == "HELLO") && sizeOf(args) > maxStranger, !s.track.mayQueue(c, cmd, args):
		c.WriteError("ERR too long for the embedded store")
	case s.track.writes(cmd) && !frees(cmd, args) && !s.memory.fits(sizeOf(args)+len(args)*(storedCost-wordCost)):
		c.WriteError("OOM command not allowed when used memory > 'maxmemory'.")
	case cmd == "INFO":
		c.WriteBulk("# Server\r\nrun_id:" + s.run + "\r\n")
	default:
		s.track.run(c, cmd, args)
	}
	return handled
}

// The bounds of a pattern. Miniredis makes a regular expression of it, matches that with all names
// under its lock, and nothing ends it.
const (
	maxPattern = 256 // bytes
	maxStars   = 4
)

// isCostly reports whether a command may have a pattern beyond the bounds.
func isCostly(cmd string, args []string) bool {
	return (cmd == "KEYS" || strings.HasSuffix(cmd, "SCAN")) && slices.ContainsFunc(args, func(arg string) bool {
		return len(arg) > maxPattern || strings.Count(arg, "*") > maxStars
	})
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
