package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"vitrine/cache"
	"vitrine/config"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// checkCommand tries everything that serve needs, once.
type checkCommand struct {
	settingsFlags
	JSON    bool   `name:"json" help:"Report as JSON."`
	Explain string `name:"explain" placeholder:"RESOURCE" enum:",catalogue,rules,banners" default:"" help:"Show, for the first item of each list of a resource, what was received, what each step made of it, and what was repaired."`
	Record  string `name:"record" placeholder:"DIR" help:"Keep the responses in a folder that --upstream-url file:DIR can replay, without the secrets that were sent."`
}

// report is the result of check.
type report struct {
	OK        bool                             `json:"ok"`
	Upstream  string                           `json:"upstream"`
	Preset    string                           `json:"preset"`
	Redis     storeReport                      `json:"redis"`
	Resources map[shape.Resource]fetchedReport `json:"resources"`
}

// storeReport is the result of reaching Redis.
type storeReport struct {
	Address      string       `json:"address"`
	OK           bool         `json:"ok"`
	Version      string       `json:"version,omitempty"`
	Milliseconds float64      `json:"milliseconds"`
	Error        string       `json:"error,omitempty"`
	Lacks        []cache.Lack `json:"lacks,omitempty"`
}

// fetchedReport is the result of fetching one resource.
type fetchedReport struct {
	OK           bool                 `json:"ok"`
	Status       int                  `json:"status"`   // of the CMS's last response; 0 if there was none
	Upstream     string               `json:"upstream"` // the base URL, or the folder, that answered
	Attempts     int                  `json:"attempts"`
	Pages        int                  `json:"pages"`          // responses that it was made from
	Received     int                  `json:"received_bytes"` // of these
	Items        int                  `json:"items"`
	Lists        []listReport         `json:"lists"`
	Bytes        int                  `json:"bytes"` // normalized
	Milliseconds float64              `json:"milliseconds"`
	Steps        stepsReport          `json:"steps"`
	Repairs      []repairsReport      `json:"repairs"` // those of the kind unknown were dropped
	Suspicions   []upstream.Suspicion `json:"suspicions"`
	Refused      string               `json:"refused,omitempty"` // path, wanted and found
	Error        string               `json:"error,omitempty"`
	Said         string               `json:"said,omitempty"` // what the CMS said about it
}

// listReport is a list of the document, with its first item.
type listReport struct {
	Path  string `json:"path"`
	Items int    `json:"items"`
	First string `json:"first,omitempty"` // abbreviated
}

// stepsReport is the breakdown of the time, in milliseconds.
type stepsReport struct {
	Fetch     float64 `json:"fetch"`
	Map       float64 `json:"map"`
	Normalize float64 `json:"normalize"`
}

// repairsReport counts repairs of one kind and names the first few.
type repairsReport struct {
	Kind  shape.Kind `json:"kind"`
	Count int        `json:"count"`
	Paths []string   `json:"paths"`
}

// Run checks everything concurrently, and reports in order.
func (c *checkCommand) Run(ctx context.Context, p program) error {
	cfg, err := c.load(p)
	if err != nil {
		return err
	}
	recorder := recorder{dir: c.Record}
	client, err := newUpstream(cfg, slog.New(slog.DiscardHandler), nil, recorder.install) //nolint:contextcheck // the breaker logs changes of state, which belong to no request
	if err != nil {
		return err
	}
	defer client.Close()
	if c.Explain != "" {
		return errors.Join(explain(ctx, client, shape.Resource(c.Explain), c.JSON, p), recorder.err)
	}

	r := report{Upstream: client.String(), Preset: cfg.Upstream.Preset, Resources: map[shape.Resource]fetchedReport{}}
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
	if err := errors.Join(group.Wait(), recorder.err); err != nil {
		return err
	}
	r.OK = r.Redis.OK
	for i, resource := range shape.Resources() {
		r.Resources[resource] = fetched[i]
		r.OK = r.OK && fetched[i].OK
	}

	if c.JSON {
		err = p.printJSON(r)
	} else {
		screen := newScreen(p)
		checkView{screen}.show(r)
		err = screen.flush()
	}
	if err != nil {
		return err
	}
	if !r.OK {
		return errReported
	}
	return nil
}

// reachRedis examines Redis. Its error is a configuration error.
func reachRedis(ctx context.Context, cfg config.Config) (storeReport, error) {
	if strings.HasPrefix(cfg.Redis.URL.Reveal(), "embedded:") {
		return storeReport{Address: "embedded: not tried, serve starts it", OK: true}, nil
	}
	store, err := cache.Open(ctx, cache.Options{URL: cfg.Redis.URL.Reveal(), Prefix: cfg.Redis.Prefix, PurgeBound: cfg.Redis.PurgeBound})
	if err != nil {
		return storeReport{}, cfg.Refuse("redis.url", err)
	}
	found, err := store.Examine(ctx)
	r := storeReport{Address: store.Addr(), OK: err == nil, Version: found.Version, Milliseconds: milliseconds(found.RoundTrip), Lacks: found.Lacks}
	if err != nil {
		r.Error = err.Error()
	}
	return r, store.Close()
}

// fetchOnce fetches one resource like a miss of serve.
func fetchOnce(ctx context.Context, client *upstream.Client, resource shape.Resource) fetchedReport {
	result, err := client.Fetch(ctx, resource, upstream.Validators{})
	r := fetchedReport{
		OK:           err == nil,
		Status:       result.Status,
		Upstream:     result.Upstream,
		Attempts:     result.Attempts,
		Pages:        result.Pages,
		Received:     result.Bytes,
		Items:        result.Document.Items,
		Lists:        []listReport{},
		Bytes:        len(result.Document.Body),
		Milliseconds: milliseconds(result.Duration),
		Steps: stepsReport{
			Fetch: milliseconds(result.Steps.Fetch), Map: milliseconds(result.Steps.Map), Normalize: milliseconds(result.Steps.Normalize),
		},
		Repairs:    []repairsReport{},
		Suspicions: append([]upstream.Suspicion{}, result.Suspicions...),
	}
	first := firstItems(result.Document)
	for i, list := range result.Document.Lists {
		r.Lists = append(r.Lists, listReport{Path: list.Path, Items: list.Items, First: first[i]})
	}
	r.Repairs = repairsOf(result.Document.Repairs)
	if err == nil {
		return r
	}
	r.Error = err.Error()
	if status, ok := errors.AsType[*upstream.StatusError](err); ok {
		r.Status, r.Said = status.Code, status.Said
	}
	if refused, ok := errors.AsType[*shape.RefusedError](err); ok {
		r.Refused = refused.Error()
	}
	return r
}

// mostOfItem is how many characters of a list's first item are shown.
const mostOfItem = 120

// firstItems returns what the first item of each list of doc begins with; "" for an empty list.
func firstItems(doc shape.Document) []string {
	lists := make([][]json.RawMessage, len(doc.Lists))
	if len(lists) == 1 {
		_ = json.Unmarshal(doc.Body, &lists[0]) // vitrine wrote it
	} else {
		var byName map[string][]json.RawMessage
		_ = json.Unmarshal(doc.Body, &byName) // the same
		for i, list := range doc.Lists {
			lists[i] = byName[list.Path[strings.LastIndexByte(list.Path, '.')+1:]]
		}
	}
	first := make([]string, len(lists))
	for i, list := range lists {
		if len(list) > 0 {
			if first[i] = string(list[0]); utf8.RuneCountInString(first[i]) > mostOfItem {
				first[i] = string([]rune(first[i])[:mostOfItem-1]) + "…"
			}
		}
	}
	return first
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
