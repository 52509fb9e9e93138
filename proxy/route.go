package proxy

import (
	"bytes"

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

// A match is the relation of a path to a route.
type match uint8

const (
	noMatch   match = iota
	exact           // the resource is here
	slashless       // the resource is at this path with a slash added
	slashed         // the resource is at this path without its slash
)

// findRoute looks up a path as the client sent it. The index is that of routes. A percent-encoded
// character is the character it stands for, as in Django; dots and double slashes are not resolved.
func findRoute(path []byte) (index int, m match) {
	if bytes.IndexByte(path, '%') >= 0 {
		var scratch [64]byte
		path = negotiate.AppendDecodedPath(scratch[:0], path)
	}
	for i := range routes {
		want := routes[i].path
		if string(path) == want {
			return i, exact
		}
	}
	for i := range routes {
		want := routes[i].path
		if len(path)+1 == len(want) && want[len(path)] == '/' && string(path) == want[:len(path)] {
			return i, slashless
		}
		if want[len(want)-1] != '/' && len(path) == len(want)+1 && path[len(want)] == '/' && string(path[:len(want)]) == want {
			return i, slashed
		}
	}
	return 0, noMatch
}
