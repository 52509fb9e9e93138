package lease

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

//go:embed lua/*.lua
var lua embed.FS

// A script is one of lua/, after prelude.lua.
type script struct {
	name string
	*redis.Script
}

// IsScript reports whether s is one of the scripts, or the hash of one, for a store that runs no
// others.
func IsScript(s string) bool {
	hash := redis.NewScript(s).Hash()
	return slices.ContainsFunc([]script{look, acquire, fill, release, purge, accept, remember, restore, roster, notify}, func(own script) bool {
		return own.Hash() == s || own.Hash() == hash
	})
}

var (
	look     = load("look")
	acquire  = load("acquire")
	fill     = load("fill")
	release  = load("release")
	purge    = load("purge")
	accept   = load("accept")
	remember = load("remember")
	restore  = load("restore")
	roster   = load("roster")
	notify   = load("notify")
)

func load(name string) script {
	text := ""
	for _, file := range []string{"prelude", name} {
		b, err := lua.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic(err) // embedded with the program
		}
		text += string(b)
	}
	return script{name, redis.NewScript(text)}
}

// reply is a script's reply. A field that is missing or of another type reads as empty or 0.
type reply []any

var errReply = errors.New("empty reply from a script")

func (s script) run(ctx context.Context, c redis.Scripter, name string, keys []string, args ...any) (reply, error) {
	return s.with(ctx, name, func(ctx context.Context) *redis.Cmd { return s.Run(ctx, c, keys, args...) })
}

// runReadOnly runs a script that writes nothing, also while clients that write are paused (CLIENT
// PAUSE WRITE, as in a planned failover).
func (s script) runReadOnly(ctx context.Context, c redis.Scripter, name string, keys []string, args ...any) (reply, error) {
	return s.with(ctx, name, func(ctx context.Context) *redis.Cmd { return s.RunRO(ctx, c, keys, args...) })
}

func (s script) with(ctx context.Context, name string, run func(context.Context) *redis.Cmd) (reply, error) {
	ctx, end := Span(ctx, s.name, name)
	v, err := run(ctx).Slice()
	if err == nil && len(v) == 0 {
		err = errReply
	}
	end(err)
	if err != nil {
		return nil, fmt.Errorf("redis: %s: %w", s.name, err)
	}
	return v, nil
}

// noReadOnly reports whether Redis has no read-only scripts, does not permit them, or takes TIME
// for a write, as the embedded store does.
func noReadOnly(err error) bool {
	return redis.HasErrorPrefix(err, "unknown command") || redis.IsPermissionError(err) || strings.Contains(err.Error(), "read-only scripts")
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

// Span begins the span of a call to Redis within that of ctx, if that is recorded. It contains no
// error text, which may repeat data from Redis.
func Span(ctx context.Context, operation, resource string) (spanned context.Context, end func(error)) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, func(error) {}
	}
	ctx, span := parent.TracerProvider().Tracer("vitrine/cache").Start(ctx, "redis "+operation, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("db.system.name", "redis"), attribute.String("db.operation.name", operation), attribute.String("vitrine.resource", resource)))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
