//go:build unix

package accesslog

import (
	"os"
	"os/signal"
	"syscall"
)

// signals reports SIGUSR1 until stop is called.
func signals() (asked <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	return c, func() { signal.Stop(c) }
}
