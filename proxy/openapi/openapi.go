// Package openapi is the OpenAPI 3.1 description of the three public routes, served at the
// operator's address as /openapi.json.
//
// The description is the file openapi.json beside this one. Tests compare its schemas with the
// types of upstream/shape, and check it against real responses of every kind.
package openapi

import (
	_ "embed" // for the document
)

// Document is the description as JSON. It is not modified.
//
//go:embed openapi.json
var Document []byte
