package proxy

import (
	"strings"

	"vitrine/upstream/shape"
)

// A route maps a public path to its resource.
type route struct {
	path     string
	resource shape.Resource
	sortable bool
}

// routes are the public paths.
var routes = func() (all [shape.Count]route) {
	for i, r := range shape.Resources() {
		all[i] = route{path: r.Route(), resource: r, sortable: r.Sortable()}
	}
	return all
}()

// otherPath is the path that is redirected to the route's: without its slash at the end, or with
// one.
func (r *route) otherPath() string {
	if path, ok := strings.CutSuffix(r.path, "/"); ok {
		return path
	}
	return r.path + "/"
}
