// Package clienttest has the generator of a client of the OpenAPI document, and what the client
// imports: a module of its own, so that neither is a dependency of vitrine. The long tests generate
// the client and have it use a running vitrine.
package clienttest

import _ "github.com/oapi-codegen/runtime" // which the generated client imports
