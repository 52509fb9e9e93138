// Package presets has what is known of each kind of CMS, in the keys that an operator writes below
// upstream: shared and resources. Adding one takes its file, and recordings of its answers.
package presets

import "embed"

// FS has a file for each preset: strapi5.yaml.
//
//go:embed *.yaml
var FS embed.FS
