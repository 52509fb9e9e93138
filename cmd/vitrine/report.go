package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"vitrine/cache"
	"vitrine/proxy/operator/metrics"
	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// report is the result of check.
type report struct {
	OK        bool                             `json:"ok"`
	Upstream  string                           `json:"upstream"`
	Preset    string                           `json:"preset"`
	TLS       *certificateReport               `json:"tls,omitempty"`
	Redis     storeReport                      `json:"redis"`
	Resources map[shape.Resource]fetchedReport `json:"resources"`
}

// certificateReport is the certificate for the public address.
type certificateReport struct {
	File      string    `json:"file"`
	OK        bool      `json:"ok"`
	NotBefore time.Time `json:"not_before"`
	NotAfter  time.Time `json:"not_after"`
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
	HeldBack map[shape.Resource]*metrics.HeldBack `json:"held_back,omitempty"`
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

// A checkView writes a report in plain columns that can be pasted into a ticket.
type checkView struct{ *screen }

func (v checkView) show(r report) {
	v.printf("%-10s %-7s %s, preset %s\n", "upstream", "", r.Upstream, r.Preset)
	if c := r.TLS; c != nil {
		from, until := c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339)
		switch {
		case c.OK:
			v.printf("%-10s ok      %s, until %s\n", "tls", c.File, until)
		case c.NotBefore.After(time.Now()):
			v.printf("%-10s FAILED  %s: the certificate is not valid before %s\n", "tls", c.File, from)
		default:
			v.printf("%-10s FAILED  %s: the certificate expired at %s\n", "tls", c.File, until)
		}
	}
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
	case !r.OK:
		return "All resources would be served, but the certificate is not valid now."
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
