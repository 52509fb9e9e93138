package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// inherited returns the public socket if systemd opened it (sd_listen_fds(3)), otherwise nil.
func inherited() (net.Listener, error) {
	count, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err == nil && count > 1 && os.Getenv("LISTEN_PID") == strconv.Itoa(os.Getpid()) { // before memory is taken for each
		return nil, fmt.Errorf("systemd passed %d sockets, want one stream socket, the public address", count)
	}
	passed, err := activation.Listeners()
	switch {
	case err != nil:
		return nil, fmt.Errorf("sockets of systemd: %w", err)
	case len(passed) == 0:
		return nil, nil //nolint:nilnil // systemd is not involved
	case passed[0] == nil:
		return nil, errors.New("systemd passed no stream socket")
	}
	return passed[0], nil
}

// tellSystemd sends the state (sd_notify(3)) if systemd expects it.
func tellSystemd(ctx context.Context, log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.WarnContext(ctx, "systemd not notified", "state", state, "error", err)
	}
}

// feedWatchdog notifies systemd that the process runs, twice per watchdog interval, until ctx ends.
func feedWatchdog(ctx context.Context, log *slog.Logger) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.WarnContext(ctx, "no watchdog", "error", err)
	}
	if limit == 0 {
		return
	}
	tick := time.NewTicker(limit / 2)
	defer tick.Stop()
	for {
		tellSystemd(ctx, log, daemon.SdNotifyWatchdog)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
