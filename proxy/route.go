package proxy

import (
	"bytes"

	"vitrine/upstream/shape"
)

// A route is a path and what is there.
type route struct {
	path     string
	resource shape.Resource
}

// routes maps each public path to its resource (docs/interface.md, section 4). Only a path that ends in a slash is
// redirected to when the slash is missing.
var routes = [...]route{
	{path: "/gvapp/", resource: shape.Catalogue},
	{path: "/cms/rules/", resource: shape.Rules},
	{path: "/gvapp/singlebanner", resource: shape.Banners},
}

// A match is the resource at a path, or where to find it.
type match uint8

const (
	noMatch   match = iota
	exact           // the resource is here
	slashless       // the resource is at this path with a slash added
	slashed         // the resource is at this path without its slash
)

// findRoute looks a path up, as the client sent it. The index is that of routes.
// A percent-encoded character is the character it stands for, as in Django; dots and double slashes are not resolved.
func findRoute(path []byte) (index int, m match) {
	if bytes.IndexByte(path, '%') >= 0 {
		var scratch [64]byte
		path = appendDecodedPath(scratch[:0], path)
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

// appendDecodedPath appends what a path stands for; a plus sign in it is itself.
func appendDecodedPath(dst, encoded []byte) []byte {
	for len(encoded) > 0 {
		c, width := decodeByte(encoded)
		if encoded[0] == '+' {
			c = '+'
		}
		dst = append(dst, c)
		encoded = encoded[width:]
	}
	return dst
}
