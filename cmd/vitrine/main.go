// Command vitrine serves a gallery's catalogue, display rules and banners from a cache in front of
// their CMS.
//
// In one run, the command line selects a command and its flags (cli.go); the command reads the
// configuration (settings.go) and does its work: serve, the default, that of package service. Any
// failure is one line on stderr and an exit code (program.go).
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"vitrine/cmd/vitrine/logs"
)

func main() { os.Exit(execute("/etc/vitrine")) }

// execute runs the command line of this process. The configuration of an installed service is in
// the folder installed.
func execute(installed string) int {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // libraries log to it: net/http what a CMS sends without being asked
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // until the process ends
		<-signals
		// The first signal stops gracefully. Without a handler the second one ends the process at once:
		// it has none before the process can be seen to stop.
		signal.Reset(os.Interrupt, syscall.SIGTERM)
		stop()
	}()
	stderr := logs.NewQueue(os.Stderr)
	defer stderr.Close()
	return run(ctx, os.Args[1:], program{environ: os.Environ(), stdout: os.Stdout, stderr: stderr, hangups: hangups, installed: installed})
}

// hangups reports SIGHUP, which no longer ends the process. Those that arrive during a reload count
// as one.
func hangups() <-chan os.Signal {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	return asked
}
