package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"vitrine/cmd/vitrine/loader"
	"vitrine/cmd/vitrine/service"
	"vitrine/config"
	"vitrine/proxy/operator"
	"vitrine/upstream"
	"vitrine/upstream/guard"
	"vitrine/upstream/sanitize"
	"vitrine/upstream/shape"
)

// check tries everything that serve needs, once, or does what its flags say.
func check(c *call, f *flag.FlagSet) action {
	explained := f.String("explain", "", "show how the first items of a `RESOURCE` become what is served, step by step")
	compared := f.Bool("diff", false, "compare what the CMS would give now with what is served")
	printed := f.String("print", "", "print the document of a `RESOURCE` that would be served from this CMS")
	return func(ctx context.Context) (any, error) {
		for flag, name := range map[string]string{"--explain (flag)": *explained, "--print (flag)": *printed} {
			if name == "" {
				continue
			}
			if _, err := resourceNamed(flag, name); err != nil {
				return nil, err
			}
		}
		cfg, _, err := c.find("")
		if err != nil {
			return nil, err
		}
		client, err := service.NewUpstream(cfg, nil) //nolint:contextcheck // the breaker logs changes of state, which belong to no request
		if err != nil {
			return nil, err
		}
		defer client.Close()
		switch {
		case *explained != "":
			all, err := client.Explain(ctx, shape.Resource(*explained))
			if len(all) == 0 && err != nil {
				return nil, err
			}
			return explanations(all), err
		case *printed != "":
			result, err := client.Fetch(ctx, shape.Resource(*printed), upstream.Held{})
			if err != nil {
				return nil, err
			}
			return document(result.Document.Body), nil
		}
		return checkAll(ctx, cfg, client, *compared)
	}
}

// explanations are how the first items of a resource become part of its document.
type explanations []upstream.Explanation

func (all explanations) view() string { return "explain" }
func (all explanations) failed() bool {
	return slices.ContainsFunc(all, func(e upstream.Explanation) bool { return e.Error != "" })
}

// checkAll checks everything, the resources concurrently, or compares them with what is served.
func checkAll(ctx context.Context, cfg config.Config, client *upstream.Client, compared bool) (any, error) {
	certificate, err := service.NewCertificate(cfg, nil)
	if err != nil {
		return nil, err
	}
	r := report{Upstream: client.String(), Preset: cfg.Upstream.Preset, Resources: map[shape.Resource]fetchedReport{}, compared: compared}
	if certificate != nil && !compared {
		from, until := certificate.Valid()
		now := time.Now()
		r.TLS = &certificateReport{File: cfg.TLS.CertFile, OK: !now.Before(from) && !now.After(until), NotBefore: from, NotAfter: until}
	}
	fetched := make([]fetchedReport, len(shape.Resources()))
	var before map[shape.Resource]baseline
	r.Redis, before, err = reachRedis(ctx, cfg)
	if err == nil && compared {
		err = r.Redis.unread
	}
	if err != nil {
		return nil, err
	}
	var group errgroup.Group
	for i, resource := range shape.Resources() {
		group.Go(func() error {
			fetched[i] = fetchOnce(ctx, cfg, client, resource, before[resource], compared)
			return nil
		})
	}
	_ = group.Wait() // fetched has the errors
	r.OK = r.Redis.OK && (r.TLS == nil || r.TLS.OK)
	for i, resource := range shape.Resources() {
		r.Resources[resource] = fetched[i]
		r.OK = r.OK && fetched[i].OK && !fetched[i].Held()
	}
	return r, nil
}

// reachRedis examines Redis, unless it is the store inside of a process, and reads what is served,
// and held back, as far as it can be reached. Its error is a configuration error.
func reachRedis(ctx context.Context, cfg config.Config) (storeReport, map[shape.Resource]baseline, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTime)
	defer cancel()
	store, err := service.OpenStore(ctx, cfg)
	if err != nil {
		return storeReport{}, nil, err
	}
	r := storeReport{Address: "embedded: not tried, serve starts it", OK: true}
	if !strings.HasPrefix(cfg.Redis.URL.Reveal(), "embedded:") {
		found, err := store.Examine(ctx)
		r = storeReport{Address: store.Addr(), OK: err == nil, Version: found.Version, Milliseconds: operator.Milliseconds(found.RoundTrip), Lacks: found.Lacks}
		if err != nil {
			r.Error, r.unread = sanitize.Text(err.Error()), err
		}
	}
	all := make(map[shape.Resource]baseline)
	r.HeldBack = make(map[shape.Resource]*guard.Hold)
	for _, resource := range shape.Resources() {
		b, err := baselineOf(ctx, store, resource)
		if r.unread = cmp.Or(r.unread, err); r.unread != nil {
			break
		}
		if all[resource] = b; b.present.HeldBack != nil {
			r.HeldBack[resource] = service.HeldBack(resource, b.present.HeldBack)
		}
	}
	return r, all, store.Close()
}

// fetchOnce fetches one resource like a miss of serve, and asks the guard.
func fetchOnce(ctx context.Context, cfg config.Config, client *upstream.Client, resource shape.Resource, served baseline, compared bool) fetchedReport {
	result, err := client.Fetch(ctx, resource, upstream.Held{Survey: served.survey, Warnings: loader.Warnings(served.present.Document)})
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
		Suspicions:   append(guard.Findings{}, result.Warnings.Standing()...),
	}
	if compared {
		r.Diff = served.compare(resource, result.Document.Body)
	}
	if err == nil {
		r.HeldBack, r.Taken = served.judge(cfg, client.Fingerprint(), result.Document.Survey)
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
	for _, list := range doc.Survey {
		out = append(out, listReport{Path: list.Path, Items: list.Items, First: sanitize.Clip(string(items[list.Path]), mostOfItem-1)})
	}
	return out
}
