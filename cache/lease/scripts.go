package lease

import (
	"context"
	"embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var lua embed.FS

// A script is one of lua/, after prelude.lua unless it stands alone.
type script struct {
	text string
	*redis.Script
}

var scripts = load()

func load() map[string]script {
	read := func(name string) string {
		text, err := lua.ReadFile("lua/" + name)
		if err != nil {
			panic(err) // embedded with the program
		}
		return string(text)
	}
	all, prelude := map[string]script{}, read("prelude.lua")
	files, _ := lua.ReadDir("lua") // likewise
	for _, file := range files {
		name, _, _ := strings.Cut(file.Name(), ".")
		text := read(file.Name())
		switch name {
		case "prelude":
			continue
		case "notify": // which needs none of it
		default:
			text = prelude + text
		}
		all[name] = script{text, redis.NewScript(text)}
	}
	return all
}

// IsScript reports whether s is one of the scripts, or the hash of one, for a store that runs no
// others.
func IsScript(s string) bool {
	for _, own := range scripts {
		if own.text == s || own.Hash() == s {
			return true
		}
	}
	return false
}

// reply is a script's reply. A field that is missing or of another type reads as empty or 0.
type reply []any

var errReply = errors.New("empty reply from a script")

// run runs a script. A reply of one word is the first field.
func run(ctx context.Context, c redis.Scripter, s script, keys []string, args ...any) (reply, error) {
	cmd := s.Run(ctx, c, keys, args...)
	if text, err := cmd.Text(); err == nil {
		return reply{text}, nil
	}
	v, err := cmd.Slice()
	if err == nil && len(v) == 0 {
		err = errReply
	}
	return v, err
}

func (r reply) text(i int) string {
	if i < len(r) {
		switch v := r[i].(type) {
		case string:
			return v
		case int64:
			return strconv.FormatInt(v, 10)
		}
	}
	return ""
}

// int is a number that the script has parsed or made; see num in prelude.lua.
func (r reply) int(i int) int64 {
	n, err := strconv.ParseInt(r.text(i), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (r reply) millis(i int) time.Duration { return time.Duration(r.int(i)) * time.Millisecond }
