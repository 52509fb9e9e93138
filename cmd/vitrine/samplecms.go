package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"vitrine/upstream/sample"
)

// sampleCMSCommand stands in for the CMS.
type sampleCMSCommand struct {
	Listen string        `default:"127.0.0.1:8000" placeholder:"HOST:PORT" help:"Address to listen on (${default})."`
	Delay  time.Duration `help:"Delay of each document, since a real CMS is slow."`
	Live   bool          `help:"Send a new version of a document in each response."`
}

// Run serves until ctx ends.
func (c *sampleCMSCommand) Run(ctx context.Context, p program) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if _, ok := errors.AsType[*net.AddrError](err); ok {
		return &usageError{fmt.Errorf("--listen (flag): want HOST:PORT, got %q", c.Listen)}
	}
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if _, err := fmt.Fprintf(p.stdout, "sample CMS on http://%s\n", l.Addr()); err != nil {
		_ = l.Close()
		return err
	}
	server := &http.Server{
		Handler:           sample.Handler(sample.Options{Delay: c.Delay, Live: c.Live}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), sampleGrace)
		defer cancel()
		if err := server.Shutdown(grace); err != nil {
			stopped <- server.Close()
		}
		close(stopped)
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// sampleGrace is how long the sample CMS lets requests in flight finish.
const sampleGrace = 3 * time.Second
