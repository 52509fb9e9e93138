// Package docs has the page that vitrine shows itself.
package docs

import _ "embed" // for the page

// Operations is operations.md.
//
//go:embed operations.md
var Operations string
