package embedded

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// served are the commands that vitrine uses, and those that operators inspect and purge with.
// Others could allocate or wait without limit: SETRANGE at a large offset, BLPOP, COPY, SUBSCRIBE.
var served = func() map[string]bool {
	all := map[string]bool{}
	for cmd := range strings.FieldsSeq(`
		AUTH CLIENT COMMAND ECHO HELLO INFO PING QUIT SELECT TIME
		DBSIZE DEL EXISTS EXPIRE EXPIREAT FLUSHALL FLUSHDB KEYS PERSIST PEXPIRE PEXPIREAT PTTL RANDOMKEY RENAME RENAMENX SCAN
		TOUCH TTL TYPE UNLINK
		GET GETDEL GETSET MGET MSET SET SETNX STRLEN
		HDEL HEXISTS HGET HGETALL HINCRBY HKEYS HLEN HMGET HMSET HSCAN HSET HSETNX HSTRLEN HVALS
		DISCARD EXEC MULTI
		EVAL EVAL_RO EVALSHA EVALSHA_RO SCRIPT`) {
		all[cmd] = true
	}
	return all
}()

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
	if !s.track.enters(c) {
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
	case !served[cmd]:
		c.WriteError(fmt.Sprintf("ERR unknown command '%.32s', the embedded store has those that vitrine and its operator need", cmd))
	case s.isForeign(cmd, args):
		c.WriteError("NOPERM the embedded store runs vitrine's own scripts only")
	case cmd == "SELECT" && len(args) == 1 && args[0] != "0":
		c.WriteError("ERR DB index is out of range")
	case (cmd == "CLIENT" || cmd == "HELLO") && sizeOf(args) > maxStranger, !s.track.mayQueue(c, cmd, sizeOf(args)):
		c.WriteError("ERR too long for the embedded store")
	case writes(cmd) && !frees(cmd) && !s.memory.fits(sizeOf(args)):
		c.WriteError("OOM command not allowed when used memory > 'maxmemory'.")
	case cmd == "INFO":
		c.WriteBulk("# Server\r\nrun_id:" + s.run + "\r\n")
	default:
		s.track.run(c, cmd, args)
	}
	return handled
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
