package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"time"

	"vitrine/upstream/sample"
)

// sampleCMS stands in for the CMS until ctx ends.
func sampleCMS(c *call, f *flag.FlagSet) action {
	listen := f.String("listen", "127.0.0.1:8000", "the `HOST:PORT` to listen on")
	delay := f.Duration("delay", 0, "a `DURATION` that each document takes, since a real CMS is slow")
	live := f.Bool("live", false, "send a new version of a document in each response")
	return func(ctx context.Context) (any, error) {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
		if _, ok := errors.AsType[*net.AddrError](err); ok {
			return nil, wrongUse("--listen (flag): want HOST:PORT, got %q", *listen)
		}
		if err == nil {
			_, err = fmt.Fprintf(c.stdout, "sample CMS on http://%s\n", l.Addr())
		}
		if err != nil {
			return nil, fmt.Errorf("--listen: %w", err)
		}
		return nil, serveSample(ctx, l, sample.Options{Delay: *delay, Live: *live})
	}
}

func serveSample(ctx context.Context, l net.Listener, o sample.Options) error {
	server := &http.Server{Handler: sample.Handler(o), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
