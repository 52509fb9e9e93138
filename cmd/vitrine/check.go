package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dustin/go-humanize/english"

	"vitrine/cache"
	"vitrine/config"
	"vitrine/proxy/operator"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// checkCommand tries everything that serve needs, once.
type checkCommand struct {
	settingsFlags
	JSON    bool   `name:"json" help:"Report as JSON."`
	Explain string `name:"explain" placeholder:"RESOURCE" help:"Show, for the first item of each list of a resource, what was received, what each step made of it, and what was repaired."`
	Diff    bool   `name:"diff" help:"Compare what the CMS would give now with what is served."`
	Print   string `name:"print" placeholder:"RESOURCE" help:"Print the document that would be served from this CMS."`
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
	// HeldBack is what a running vitrine holds back.
	HeldBack map[shape.Resource]*operator.HeldBack `json:"held_back,omitempty"`
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
	Repairs      shape.Repairs        `json:"repairs"` // those of the kind unknown were dropped
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

// Run does what the flags ask for, or checks everything.
func (c *checkCommand) Run(ctx context.Context, p program) error {
	for flag, name := range map[string]string{"--explain (flag)": c.Explain, "--print (flag)": c.Print} {
		if name == "" {
			continue
		}
		if _, err := resourceNamed(flag, name); err != nil {
			return err
		}
	}
	cfg, _, err := c.find(p, everySetting)
	if err != nil {
		return err
	}
	recorder := recorder{dir: c.Record}
	client, err := newUpstream(cfg, slog.New(slog.DiscardHandler), nil, recorder.install) //nolint:contextcheck // the breaker logs changes of state, which belong to no request
	if err != nil {
		return err
	}
	defer client.Close()
	switch {
	case c.Explain != "":
		err = explain(ctx, client, shape.Resource(c.Explain), c.JSON, p)
	case c.Print != "":
		var result upstream.Result
		if result, err = client.Fetch(ctx, shape.Resource(c.Print), upstream.Held{}); err == nil {
			_, err = p.stdout.Write(result.Document.Body)
		}
	case c.Diff:
		err = diff(ctx, cfg, client, c.JSON, p)
	default:
		return c.checkAll(ctx, cfg, client, &recorder, p)
	}
	return errors.Join(err, recorder.err)
}

// checkAll checks everything concurrently, and reports in order.
func (c *checkCommand) checkAll(ctx context.Context, cfg config.Config, client *upstream.Client, recorder *recorder, p program) error {
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
	err := group.Wait() // after which there is nothing more to record
	if err := errors.Join(err, recorder.err); err != nil {
		return err
	}
	r.OK = r.Redis.OK
	for i, resource := range shape.Resources() {
		r.Resources[resource] = fetched[i]
		r.OK = r.OK && fetched[i].OK
	}

	return p.report(r.OK, c.JSON, r, func(s *screen) { checkView{s}.show(r) })
}

// reachRedis examines Redis, unless it is the store inside of a process, and looks for what is held
// back there. Its error is a configuration error.
func reachRedis(ctx context.Context, cfg config.Config) (storeReport, error) {
	store, err := cache.Open(ctx, cache.Options{URL: storeURL(cfg), Prefix: cfg.Redis.Prefix, PurgeBound: cfg.Redis.PurgeBound})
	if err != nil {
		return storeReport{}, cfg.Refuse("redis.url", err)
	}
	r := storeReport{Address: "embedded: not tried, serve starts it", OK: true}
	if !strings.HasPrefix(cfg.Redis.URL.Reveal(), "embedded:") {
		found, err := store.Examine(ctx)
		r = storeReport{Address: store.Addr(), OK: err == nil, Version: found.Version, Milliseconds: milliseconds(found.RoundTrip), Lacks: found.Lacks}
		if err != nil {
			r.Error = err.Error()
		}
	}
	if r.OK {
		r.HeldBack = heldBackIn(ctx, cfg, store)
	}
	return r, store.Close()
}

// fetchOnce fetches one resource like a miss of serve.
func fetchOnce(ctx context.Context, client *upstream.Client, resource shape.Resource) fetchedReport {
	result, err := client.Fetch(ctx, resource, upstream.Held{})
	r := fetchedReport{
		OK:           err == nil,
		Status:       result.Status,
		Upstream:     result.Upstream,
		Attempts:     result.Attempts,
		Pages:        result.Pages,
		Received:     result.Bytes,
		Items:        result.Document.Items,
		Lists:        listsOf(resource, result.Document),
		Bytes:        len(result.Document.Body),
		Milliseconds: milliseconds(result.Duration),
		Steps:        stepsReport{milliseconds(result.Steps.Fetch), milliseconds(result.Steps.Map), milliseconds(result.Steps.Normalize)},
		Repairs:      result.Document.Repairs,
		Suspicions:   append([]upstream.Suspicion{}, result.Suspicions...),
	}
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

// listsOf returns the lists of doc, each with the beginning of its first item.
func listsOf(r shape.Resource, doc shape.Document) []listReport {
	out, items := []listReport{}, shape.FirstItems(r, doc.Body)
	for _, list := range doc.Lists {
		first := string(items[list.Path])
		if runes := []rune(first); len(runes) > mostOfItem {
			first = string(runes[:mostOfItem-1]) + "…"
		}
		out = append(out, listReport{Path: list.Path, Items: list.Items, First: first})
	}
	return out
}

// A checkView writes a report in plain columns that can be pasted into a ticket.
type checkView struct{ *screen }

func (v checkView) show(r report) {
	v.printf("%-10s %-7s %s, preset %s\n", "upstream", "", r.Upstream, r.Preset)
	if r.Redis.OK {
		about := ""
		if r.Redis.Version != "" {
			about = fmt.Sprintf(", version %s, %.1f ms", r.Redis.Version, r.Redis.Milliseconds)
		}
		v.printf("%-10s ok      %s%s\n", "redis", r.Redis.Address, about)
		for _, lack := range r.Redis.Lacks {
			v.line(lack.What, "%s: %s", lack.Found, lack.So)
		}
	} else {
		v.printf("%-10s FAILED  %s: %s\n", "redis", r.Redis.Address, r.Redis.Error)
	}
	for _, resource := range shape.Resources() {
		if h := r.Redis.HeldBack[resource]; h != nil {
			v.line("held back", "%s since %s, %s: %s; to accept it: %s", resource, h.Since.UTC().Format(time.RFC3339), h.Ends(), h.Reason, h.Command)
		}
	}
	bad := 0
	for _, resource := range shape.Resources() {
		f := r.Resources[resource]
		if !f.OK {
			bad++
		}
		v.printf("\n")
		v.resource(resource, f)
	}
	v.printf("\n%s\n", v.sum(r, bad))
}

// sum is the last line, which many read first.
func (v checkView) sum(r report, bad int) string {
	suspicious := 0
	for _, f := range r.Resources {
		suspicious += len(f.Suspicions)
	}
	switch {
	case bad > 0:
		return fmt.Sprintf("%d of %d resources would not be served from this CMS.", bad, len(r.Resources))
	case !r.Redis.OK:
		return "The CMS is fine, Redis is not."
	case len(r.Redis.HeldBack) > 0:
		return "All resources would be served, but a document is held back."
	case suspicious > 0:
		return "All resources would be served, but something looks wrong."
	case len(r.Redis.Lacks) > 0:
		var lacks []string
		for _, lack := range r.Redis.Lacks {
			lacks = append(lacks, lack.What)
		}
		return "All resources would be served, but Redis lacks something: " + strings.Join(lacks, ", ") + "."
	case r.Upstream == "sample:":
		return "All resources would be served, from the bundled sample: no CMS is configured."
	default:
		return "All resources would be served."
	}
}

func (v checkView) resource(resource shape.Resource, f fetchedReport) {
	if f.OK {
		v.printf("%-10s ok      status %d, %s, %d bytes, %.0f ms\n",
			resource, f.Status, english.Plural(f.Items, "item", "items"), f.Bytes, f.Milliseconds)
	} else {
		v.printf("%-10s FAILED  %s\n", resource, f.Error)
	}
	came := f.Upstream
	if f.Pages > 0 {
		came += fmt.Sprintf(", %s of %d bytes", english.Plural(f.Pages, "answer", "answers"), f.Received)
	}
	v.line("from", "%s, %s", came, english.Plural(f.Attempts, "attempt", "attempts"))
	v.line("time", "fetch %.1f ms, map %.1f ms, normalize %.1f ms", f.Steps.Fetch, f.Steps.Map, f.Steps.Normalize)
	if f.Said != "" {
		v.line("CMS said", "%s", f.Said)
	}
	if f.Refused != "" {
		v.line("refused", "%s", f.Refused)
	}
	for _, list := range f.Lists {
		name := list.Path[strings.LastIndexByte(list.Path, '.')+1:]
		if list.Items == 0 {
			v.line("list", "%-10s %6d", name, 0)
			continue
		}
		v.line("list", "%-10s %6d  %s", name, list.Items, list.First)
	}
	for _, s := range f.Suspicions {
		v.line("suspicious", "%s", s.String())
	}
	v.repaired(f.Repairs)
}

func (v checkView) repaired(all shape.Repairs) {
	v.repairs("repaired", slices.DeleteFunc(slices.Clone(all), func(r shape.Repair) bool { return r.Kind == shape.KindUnknown }))
	v.repairs("dropped", shape.Repairs{all.Of(shape.KindUnknown)})
}

// repairs lists each kind with its count and the first paths, one to a line.
func (v checkView) repairs(label string, all shape.Repairs) {
	for _, r := range all {
		for i, path := range r.Paths {
			if i == 0 {
				v.line(label, "%-10s %6d  %s", r.Kind, r.Count, path)
			} else {
				v.line("", "%-10s %6s  %s", "", "", path)
			}
		}
		if more := r.Count - len(r.Paths); more > 0 {
			v.line("", "%-10s %6s  … and %d more", "", "", more)
		}
	}
}

func (v checkView) line(label, format string, args ...any) {
	v.printf("  %-10s "+format+"\n", append([]any{label}, args...)...)
}
