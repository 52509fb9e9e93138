package main

import (
	"fmt"
	"slices"
	"strings"

	"vitrine/proxy/operator"
	"vitrine/upstream/shape"
)

// A checkView writes a report in plain columns that can be pasted into a ticket.
type checkView struct{ *screen }

func (v checkView) show(r report) {
	v.printf("%-10s %-7s %s, preset %s\n", "upstream", "", r.Upstream, r.Preset)
	if r.Redis.OK {
		about := ""
		if r.Redis.Version != "" {
			about = fmt.Sprintf(", version %s, %.1f ms", r.Redis.Version, r.Redis.Milliseconds)
		}
		v.printf("%-10s %s      %s%s\n", "redis", v.good("ok"), r.Redis.Address, about)
		for _, lack := range r.Redis.Lacks {
			v.line(lack.What, "%s: %s", v.warn(lack.Found), lack.So)
		}
	} else {
		v.printf("%-10s %s  %s: %s\n", "redis", v.bad("FAILED"), r.Redis.Address, r.Redis.Error)
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
func (v checkView) sum(r report, bad int) painted {
	suspicious := 0
	for _, f := range r.Resources {
		suspicious += len(f.Suspicions)
	}
	switch {
	case bad > 0:
		return v.bad(fmt.Sprintf("%d of %d resources would not be served from this CMS.", bad, len(r.Resources)))
	case !r.Redis.OK:
		return v.bad("The CMS is fine, Redis is not.")
	case suspicious > 0:
		return v.warn("All resources would be served, but something looks wrong.")
	case len(r.Redis.Lacks) > 0:
		return v.warn("All resources would be served, but Redis lacks something.")
	default:
		return v.good("All resources would be served.")
	}
}

func (v checkView) resource(resource shape.Resource, f fetchedReport) {
	if f.OK {
		v.printf("%-10s %s      status %d, %d items, %d bytes, %.0f ms\n",
			resource, v.good("ok"), f.Status, f.Items, f.Bytes, f.Milliseconds)
	} else {
		v.printf("%-10s %s  %s\n", resource, v.bad("FAILED"), f.Error)
	}
	came := f.Upstream
	if f.Pages > 0 {
		came += fmt.Sprintf(", %s of %d bytes", operator.Count(f.Pages, "answer", "answers"), f.Received)
	}
	v.line("from", "%s, %s", came, operator.Count(f.Attempts, "attempt", "attempts"))
	v.line("time", "fetch %.1f ms, map %.1f ms, normalize %.1f ms", f.Steps.Fetch, f.Steps.Map, f.Steps.Normalize)
	if f.Said != "" {
		v.line("the CMS", "%s", f.Said)
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
		v.line("suspicious", "%s", v.warn(s.String()))
	}
	v.repairs("repaired", slices.DeleteFunc(slices.Clone(f.Repairs), func(r repairsReport) bool { return r.Kind == shape.KindUnknown }))
	v.repairs("dropped", slices.DeleteFunc(slices.Clone(f.Repairs), func(r repairsReport) bool { return r.Kind != shape.KindUnknown }))
}

// repairs lists each kind with its count and the first paths, one to a line.
func (v checkView) repairs(label string, done []repairsReport) {
	for _, r := range done {
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
