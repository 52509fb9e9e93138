package proxy

import (
	"bytes"
	"strings"

	"vitrine/proxy/negotiate"
	"vitrine/upstream/shape"
)

// A route maps a public path to its resource.
type route struct {
	path     string
	resource shape.Resource
}

// routes are the public paths. Only to those that end in a slash are requests without it
// redirected.
var routes = [...]route{
	{path: "/gvapp/", resource: shape.Catalogue},
	{path: "/cms/rules/", resource: shape.Rules},
	{path: "/gvapp/singlebanner", resource: shape.Banners},
}

// findRoute returns the index of the route to a path as the client sent it, or of the one that it
// would be with or without a slash at its end; -1 for none. A percent-encoded character is the
// character it stands for, as in Django; dots and double slashes are not resolved.
func findRoute(path []byte) (index int, exact bool) {
	if bytes.IndexByte(path, '%') >= 0 {
		var scratch [64]byte
		path = negotiate.AppendDecoded(scratch[:0], path, '+')
	}
	for i := range routes {
		if string(path) == routes[i].path {
			return i, true
		}
	}
	path = bytes.TrimSuffix(path, []byte("/"))
	for i := range routes {
		if string(path) == strings.TrimSuffix(routes[i].path, "/") {
			return i, false
		}
	}
	return -1, false
}
