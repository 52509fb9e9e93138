// Command vitrine serves a gallery's catalogue, display rules and banners out
// of a cache in front of the CMS that holds them.
//
// One run goes: the command line picks a command and its flags (cli.go); the
// command reads the configuration (settings.go); serve, the usual one, opens
// every listener and store (service.go), says what it serves and how to try it
// (banner.go), and runs until a signal, then drains (serve.go). Whatever
// fails on the way is one line on stderr and an exit code (exit.go).
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to stop; with its handler gone the second one ends
	// the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], program{environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr, hangups: hangups}))
}

// hangups tells of SIGHUP, which from then on does not end the process. Those
// that come while one is being answered are one.
func hangups() <-chan struct{} {
	signals, asked := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for range signals {
			asked <- struct{}{}
		}
	}()
	return asked
}
