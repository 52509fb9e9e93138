// Package presets has what is known of each kind of target, in the keys that an operator writes
// below notify. Adding one takes its file.
package presets

import "embed"

// FS has a file for each preset: varnish.yaml.
//
//go:embed *.yaml
var FS embed.FS
