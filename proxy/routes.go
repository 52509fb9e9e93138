package proxy

import (
	"strings"

	"vitrine/proxy/negotiate"
	"vitrine/proxy/operator/metrics"
	"vitrine/upstream/shape"
)

// A route is a public path, with what its resource is answered from.
type route struct {
	path      string
	resource  shape.Resource
	sortable  bool
	documents Documents
	moments   moments
	answers   *metrics.Answers
	heads     [negotiate.Failed][noCodings + 1][]byte // end the header of an answer with the document
}

// newRoutes makes the public routes.
func newRoutes(o *Options, t *terms) (all []*route) {
	for _, r := range shape.Resources() {
		made := &route{path: r.Route(), resource: r, sortable: r.Sortable(), documents: o.Documents[r], answers: o.Meter.Of(r)}
		for verdict := range made.heads {
			for coding := range made.heads[verdict] {
				made.heads[verdict][coding] = t.newHead(r, negotiate.Verdict(verdict), negotiate.Encoding(coding))
			}
		}
		all = append(all, made)
	}
	return all
}

// otherPath is the path that is redirected to the route's: without its slash at the end, or with
// one.
func (r *route) otherPath() string {
	if path, ok := strings.CutSuffix(r.path, "/"); ok {
		return path
	}
	return r.path + "/"
}
