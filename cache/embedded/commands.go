package embedded

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// served are the commands that vitrine uses, and those that operators inspect and purge with.
// Others could allocate or wait without limit: SETRANGE at a large offset, BLPOP, COPY, SUBSCRIBE.
var served = strings.Fields(`
		CLIENT COMMAND ECHO HELLO INFO PING QUIT SELECT TIME
		DBSIZE DEL EXISTS EXPIRE EXPIREAT FLUSHALL FLUSHDB KEYS PERSIST PEXPIRE PEXPIREAT PTTL RANDOMKEY RENAME RENAMENX SCAN
		TOUCH TTL TYPE UNLINK
		GET GETDEL GETSET MGET SET SETNX STRLEN
		HDEL HEXISTS HGET HGETALL HINCRBY HKEYS HLEN HMGET HMSET HSCAN HSET HSETNX HSTRLEN HVALS
		EVAL EVAL_RO EVALSHA EVALSHA_RO SCRIPT`)

// commands decides which commands run, and recovers from their panics.
type commands struct {
	redis   *miniredis.Miniredis
	clock   sync.Mutex // orders the moves of miniredis's clock
	memory  *memory
	scripts func(text string) bool // whether a script is allowed: they have no time limit
	log     *slog.Logger
	runID   string // names this store, so that its end is not taken for a purge
}

// errFull is what Redis says.
const errFull = "OOM command not allowed when used memory > 'maxmemory'."

// maxPattern is the length of a pattern in bytes. Miniredis makes a regular expression of it, and
// matches that with all names under its lock.
const maxPattern = 256

// run runs a client's command.
func (s *commands) run(c *server.Peer, words []string) {
	cmd, args := strings.ToUpper(words[0]), words[1:]
	defer func() {
		if fault := recover(); fault != nil {
			s.log.Error("a command failed in the embedded store", "command", cmd, "panic", fault, "stack", string(debug.Stack()))
			c.WriteError("ERR internal error")
		}
	}()
	switch {
	case !slices.Contains(served, cmd):
		c.WriteError(fmt.Sprintf("ERR unknown command '%.32s', the embedded store has those that vitrine and its operator need", cmd))
	case s.isForeign(cmd, args):
		c.WriteError("NOPERM the embedded store runs vitrine's own scripts only")
	case (cmd == "KEYS" || strings.HasSuffix(cmd, "SCAN")) && slices.ContainsFunc(args, func(arg string) bool { return len(arg) > maxPattern }):
		c.WriteError("ERR too long a pattern for the embedded store")
	case cmd == "SELECT" && len(args) == 1 && args[0] != "0":
		c.WriteError("ERR DB index is out of range")
	case s.writes(cmd) && !s.memory.fits(cmd, args):
		c.WriteError(errFull)
	case cmd == "HELLO" && len(args) == 0: // miniredis wants a version
		c.Block(func(w *server.Writer) {
			w.WriteLen(4)
			for _, text := range []string{"server", "redis", "role", "master"} {
				w.WriteBulk(text)
			}
		})
	case cmd == "INFO":
		c.WriteBulk("# Server\r\nrun_id:" + s.runID + "\r\n# Replication\r\nrole:master\r\n")
	default:
		s.redis.Server().Dispatch(c, append([]string{cmd}, args...))
	}
}

// tick moves miniredis's clock, which makes it walk through all keys.
func (s *commands) tick() {
	s.clock.Lock() // else a command that has waited would set it back, and the keys' time would pass twice
	defer s.clock.Unlock()
	s.redis.SetTime(time.Now().Truncate(time.Microsecond))
}

// writes reports whether a command may change a key.
func (s *commands) writes(cmd string) bool {
	switch cmd {
	case "HELLO", "AUTH", "CLIENT", "PING", "ECHO", "SELECT", "QUIT", "INFO", "COMMAND", "SCRIPT", "TIME":
		return false // miniredis marks only those that read keys
	}
	return !s.redis.Server().IsReadOnlyCommand(cmd)
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
