// Command load asks for a URL over and over, on kept connections and on new ones, until it is
// interrupted. It exits with 1 if anything but a 200 came, or less than was wanted.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	clients := flag.Int("clients", 4, "how many ask at the same time; every other one keeps its connection")
	pause := flag.Duration("pause", 5*time.Millisecond, "between an answer and the next request")
	atLeast := flag.Int64("at-least", 100, "fewer requests than this prove nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	var done, failed atomic.Int64
	var all sync.WaitGroup
	for i := range *clients {
		client := &http.Client{
			Timeout:   15 * time.Second,
			Transport: &http.Transport{DisableKeepAlives: i%2 == 1},
		}
		all.Go(func() {
			for ctx.Err() == nil {
				// A request that was begun is finished, and counts.
				if err := get(context.WithoutCancel(ctx), client, flag.Arg(0)); err != nil {
					if failed.Add(1) <= 20 {
						_, _ = fmt.Fprintln(os.Stdout, time.Now().UTC().Format("15:04:05.000"), err)
					}
				}
				done.Add(1)
				select {
				case <-ctx.Done():
				case <-time.After(*pause):
				}
			}
		})
	}
	all.Wait()
	_, _ = fmt.Fprintf(os.Stdout, "%d requests, %d failed\n", done.Load(), failed.Load())
	if failed.Load() > 0 || done.Load() < *atLeast {
		os.Exit(1)
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: status %d", url, response.StatusCode)
	}
	return nil
}
