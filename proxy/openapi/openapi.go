// Package openapi is the OpenAPI 3.1 description of the three public routes, as the operator's address shows it at
// /openapi.json.
//
// The description is the file openapi.json beside this one. A test makes it anew, the schemas from the types of
// upstream/shape and the rest from what it says itself, fails where the file differs, and holds the file against real
// answers of every kind.
package openapi

import (
	_ "embed" // for the document
)

//go:embed openapi.json
var document []byte

// Document returns the description as JSON. It is shared, and not to be written to.
func Document() []byte { return document }
