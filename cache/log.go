package cache

import (
	"context"
	"fmt"
	"log/slog"
)

// clientLog takes go-redis's own messages, which would otherwise go to stderr as they are. What of them matters is told
// by the store in its own words, so that they stand at debug. go-redis has one logger for the process: the last store's.
type clientLog struct{ log *slog.Logger }

// Printf implements go-redis's logging interface.
func (c clientLog) Printf(ctx context.Context, format string, v ...any) {
	if c.log.Enabled(ctx, slog.LevelDebug) {
		c.log.DebugContext(ctx, "go-redis", "message", fmt.Sprintf(format, v...))
	}
}
