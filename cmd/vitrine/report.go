package main

import (
	"fmt"
	"strings"
	"time"

	"vitrine/cache"
	"vitrine/upstream/guard"
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
	compared  bool
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
	HeldBack map[shape.Resource]*guard.Hold `json:"held_back,omitempty"`
	unread   error                          // why what is served is not known
}

// fetchedReport is the result of fetching one resource.
type fetchedReport struct {
	OK           bool           `json:"ok"`
	Status       int            `json:"status"`   // of the CMS's last response; 0 if there was none
	Upstream     string         `json:"upstream"` // the base URL, or the folder, that answered
	Attempts     int            `json:"attempts"`
	Pages        int            `json:"pages"`          // responses that it was made from
	Received     int            `json:"received_bytes"` // of these
	Items        int            `json:"items"`
	Lists        []listReport   `json:"lists"`
	Bytes        int            `json:"bytes"` // normalized
	Milliseconds float64        `json:"milliseconds"`
	Steps        stepsReport    `json:"steps"`
	Repairs      shape.Repairs  `json:"repairs"` // those of the kind unknown were dropped
	Suspicions   guard.Findings `json:"suspicions"`
	HeldBack     string         `json:"held_back,omitempty"` // what the guard has against it
	Taken        bool           `json:"accepted,omitempty"`  // in spite of that: it is accepted, or was held back for long enough
	Refused      string         `json:"refused,omitempty"`   // path, wanted and found
	Error        string         `json:"error,omitempty"`
	Said         string         `json:"said,omitempty"` // what the CMS said about it
	Diff         *comparison    `json:"diff,omitempty"` // with --diff
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

func (r report) failed() bool { return !r.OK }

func (r report) view() string {
	if r.compared {
		return "diff"
	}
	return "check"
}

// Early reports whether the certificate is not valid yet.
func (c certificateReport) Early() bool { return c.NotBefore.After(time.Now()) }

// Held reports whether the document would be held back.
func (f fetchedReport) Held() bool { return f.HeldBack != "" && !f.Taken }

// Name is the list's own, without its path.
func (l listReport) Name() string { return l.Path[strings.LastIndexByte(l.Path, '.')+1:] }

// Sum is the last line, which many read first.
func (r report) Sum() string {
	suspicious, held, bad := 0, 0, 0
	for _, f := range r.Resources {
		suspicious += len(f.Suspicions)
		if f.Held() {
			held++
		}
		if !f.OK {
			bad++
		}
	}
	switch {
	case held > 0 && bad == 0:
		return fmt.Sprintf("%d of %d resources would be held back.", held, len(r.Resources))
	case bad > 0:
		return fmt.Sprintf("%d of %d resources would not be served from this CMS.", bad, len(r.Resources))
	case !r.Redis.OK:
		return "The CMS is fine, Redis is not."
	case !r.OK:
		return "All resources would be served, but the certificate is not valid now."
	case len(r.Redis.HeldBack) > 0:
		return "All resources would be served, but a document is held back."
	case suspicious > 0:
		return "All resources would be served, with content warnings."
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
