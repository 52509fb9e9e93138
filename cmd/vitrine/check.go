package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"vitrine/cache"
	"vitrine/cmd/vitrine/service"
	"vitrine/config"
	"vitrine/proxy/operator"
	"vitrine/proxy/operator/metrics"
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
	client, err := service.NewUpstream(cfg, nil, nil, recorder.install) //nolint:contextcheck // the breaker logs changes of state, which belong to no request
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
	certificate, err := service.NewCertificate(cfg, nil)
	if err != nil {
		return err
	}
	r := report{Upstream: client.String(), Preset: cfg.Upstream.Preset, Resources: map[shape.Resource]fetchedReport{}}
	if certificate != nil {
		from, until := certificate.Valid()
		now := time.Now()
		r.TLS = &certificateReport{File: cfg.TLS.CertFile, OK: !now.Before(from) && !now.After(until), NotBefore: from, NotAfter: until}
	}
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
	err = group.Wait() // after which there is nothing more to record
	if err := errors.Join(err, recorder.err); err != nil {
		return err
	}
	r.OK = r.Redis.OK && (r.TLS == nil || r.TLS.OK)
	for i, resource := range shape.Resources() {
		r.Resources[resource] = fetched[i]
		r.OK = r.OK && fetched[i].OK
	}
	return p.report(r.OK, c.JSON, r, func(s *screen) { checkView{s}.show(r) })
}

// reachRedis examines Redis, unless it is the store inside of a process, and looks for what is held
// back there. Its error is a configuration error.
func reachRedis(ctx context.Context, cfg config.Config) (storeReport, error) {
	store, err := service.OpenStore(ctx, cfg)
	if err != nil {
		return storeReport{}, err
	}
	r := storeReport{Address: "embedded: not tried, serve starts it", OK: true}
	if !strings.HasPrefix(cfg.Redis.URL.Reveal(), "embedded:") {
		found, err := store.Examine(ctx)
		r = storeReport{Address: store.Addr(), OK: err == nil, Version: found.Version, Milliseconds: operator.Milliseconds(found.RoundTrip), Lacks: found.Lacks}
		if err != nil {
			r.Error = err.Error()
		}
	}
	if r.OK {
		r.HeldBack = heldBackIn(ctx, store, cfg)
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
		Milliseconds: operator.Milliseconds(result.Duration),
		Steps:        stepsReport{operator.Milliseconds(result.Steps.Fetch), operator.Milliseconds(result.Steps.Map), operator.Milliseconds(result.Steps.Normalize)},
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

// recorder keeps responses as files in a folder.
type recorder struct {
	dir string // empty: nowhere

	mu  sync.Mutex // guards err
	err error      // the first
}

func (r *recorder) install(o *upstream.Options) {
	if r.dir == "" {
		return
	}
	r.err = os.MkdirAll(r.dir, 0o700)
	o.Record = func(name string, raw []byte) {
		err := os.WriteFile(filepath.Join(r.dir, name), raw, 0o600)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.err == nil {
			r.err = err
		}
	}
}

// heldBackIn is what is held back in a store, as far as it can be reached.
func heldBackIn(ctx context.Context, store *cache.Store, cfg config.Config) map[shape.Resource]*metrics.HeldBack {
	all := make(map[shape.Resource]*metrics.HeldBack)
	for _, r := range shape.Resources() {
		present, err := store.Present(ctx, string(r))
		if err != nil {
			break
		}
		if h := present.HeldBack; h != nil {
			all[r] = service.HeldBack(cfg, r, h)
		}
	}
	return all
}
