package proxy

import (
	"sync/atomic"

	"vitrine/proxy/operator/metrics"
	"vitrine/upstream/shape"
)

// A route is what a resource is answered from.
type route struct {
	resource  shape.Resource
	sortable  bool
	documents Documents
	answers   *metrics.Answers
	last      atomic.Pointer[moment]
}

// newRoutes makes those of all resources.
func newRoutes(o *Options) map[shape.Resource]*route {
	all := map[shape.Resource]*route{}
	for _, r := range shape.Resources() {
		all[r] = &route{resource: r, sortable: r.Sortable(), documents: o.Documents[r], answers: o.Meter.Of(r)}
	}
	return all
}
