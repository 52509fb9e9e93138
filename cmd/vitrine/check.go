package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"vitrine/cache"
	"vitrine/config"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// checkCommand tries everything that serving needs, once.
type checkCommand struct {
	settingsFlags
	JSON bool `name:"json" help:"Report as JSON."`
}

// Help shows what to type.
func (checkCommand) Help() string {
	return "Fetches each resource from the CMS, without any cache, and says what was repaired and what refused. " +
		"Exit code 0: all is well; 1: something is not; 2: the configuration is wrong.\n\n" + examples(
		"vitrine check --upstream-url https://cms.example",
		"vitrine check --json | jq .resources.banners",
	)
}

// report is what check found.
type report struct {
	OK        bool                             `json:"ok"`
	Upstream  string                           `json:"upstream"`
	Redis     storeReport                      `json:"redis"`
	Resources map[shape.Resource]fetchedReport `json:"resources"`
}

// storeReport is what became of reaching Redis.
type storeReport struct {
	Address      string  `json:"address"`
	OK           bool    `json:"ok"`
	Milliseconds float64 `json:"milliseconds"`
	Error        string  `json:"error,omitempty"`
}

// fetchedReport is what became of fetching one resource.
type fetchedReport struct {
	OK           bool            `json:"ok"`
	Status       int             `json:"status"` // of the CMS; 0 when there was no answer with a document
	Items        int             `json:"items"`
	Bytes        int             `json:"bytes"` // normalized
	Milliseconds float64         `json:"milliseconds"`
	Attempts     int             `json:"attempts"`
	Repairs      []repairsReport `json:"repairs"`
	Refused      string          `json:"refused,omitempty"` // the path, what was wanted and what was found
	Error        string          `json:"error,omitempty"`
}

// repairsReport counts repairs of one kind and names the first few.
type repairsReport struct {
	Kind  shape.Kind `json:"kind"`
	Count int        `json:"count"`
	Paths []string   `json:"paths"`
}

// Run checks everything at the same time, and reports in order.
func (c *checkCommand) Run(ctx context.Context, p program) error {
	cfg, err := c.load(p)
	if err != nil {
		return err
	}
	client, err := newUpstream(cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	defer client.Close()

	r := report{Upstream: client.String(), Resources: map[shape.Resource]fetchedReport{}}
	fetched := make([]fetchedReport, len(shape.Resources()))
	var group errgroup.Group
	group.Go(func() (err error) {
		r.Redis, err = reachRedis(ctx, cfg)
		return err
	})
	for i, resource := range shape.Resources() {
		group.Go(func() error {
			fetched[i] = fetchOnce(ctx, client, resource)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	r.OK = r.Redis.OK
	for i, resource := range shape.Resources() {
		r.Resources[resource] = fetched[i]
		r.OK = r.OK && fetched[i].OK
	}

	write := r.writeText
	if c.JSON {
		write = r.writeJSON
	}
	if err := write(p.stdout); err != nil {
		return err
	}
	if !r.OK {
		return errReported
	}
	return nil
}

// reachRedis asks for a sign of life. Its error is one of the configuration.
func reachRedis(ctx context.Context, cfg config.Config) (storeReport, error) {
	if strings.HasPrefix(cfg.Redis.URL.Reveal(), "embedded:") {
		return storeReport{Address: "embedded, started by serve", OK: true}, nil
	}
	store, err := cache.Open(ctx, cache.Options{URL: cfg.Redis.URL.Reveal(), Prefix: cfg.Redis.Prefix})
	if err != nil {
		return storeReport{}, cfg.Refuse("redis.url", err)
	}
	began := time.Now()
	err = store.Ping(ctx)
	r := storeReport{Address: store.Addr(), OK: err == nil, Milliseconds: milliseconds(time.Since(began))}
	if err != nil {
		r.Error = err.Error()
	}
	return r, store.Close()
}

// fetchOnce fetches one resource as serving would on a miss.
func fetchOnce(ctx context.Context, client *upstream.Client, resource shape.Resource) fetchedReport {
	result, err := client.Fetch(ctx, resource, upstream.Validators{})
	r := fetchedReport{
		OK:           err == nil,
		Status:       result.Status,
		Items:        result.Document.Items,
		Bytes:        len(result.Document.Body),
		Milliseconds: milliseconds(result.Duration),
		Attempts:     result.Attempts,
		Repairs:      []repairsReport{},
	}
	repairs := result.Document.Repairs
	for _, kind := range repairs.Kinds() {
		r.Repairs = append(r.Repairs, repairsReport{Kind: kind, Count: repairs.Count(kind), Paths: repairs.Paths(kind)})
	}
	if err == nil {
		return r
	}
	r.Error = err.Error()
	if status, ok := errors.AsType[*upstream.StatusError](err); ok {
		r.Status = status.Code
	}
	if refused, ok := errors.AsType[*shape.RefusedError](err); ok {
		r.Refused = refused.Error()
	}
	return r
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (r report) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func (r report) writeText(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	put := func(format string, args ...any) { _, _ = fmt.Fprintf(table, format, args...) } // Flush returns the error
	put("upstream\t\t%s\n", r.Upstream)
	if r.Redis.OK {
		put("redis\tok\t%s\n", r.Redis.Address)
	} else {
		put("redis\tFAILED\t%s: %s\n", r.Redis.Address, r.Redis.Error)
	}
	for _, resource := range shape.Resources() {
		f := r.Resources[resource]
		if !f.OK {
			put("%s\tFAILED\t%s\n", resource, f.Error)
			continue
		}
		put("%s\tok\tstatus %d, %d items, %d bytes, %.0f ms\n", resource, f.Status, f.Items, f.Bytes, f.Milliseconds)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return r.writeRepairs(w)
}

// writeRepairs lists below the table what normalizing had to do.
func (r report) writeRepairs(w io.Writer) error {
	for _, resource := range shape.Resources() {
		for _, repaired := range r.Resources[resource].Repairs {
			more := ""
			if repaired.Count > len(repaired.Paths) {
				more = ", …"
			}
			if _, err := fmt.Fprintf(w, "%s: %d repaired (%s): %s%s\n",
				resource, repaired.Count, repaired.Kind, strings.Join(repaired.Paths, ", "), more); err != nil {
				return err
			}
		}
	}
	return nil
}
