// Package presets has a YAML file for each kind of CMS: its paths, envelopes, paging and mapping,
// in the keys that an operator writes below upstream (shared and resources). Package config reads
// the file of upstream.preset, and puts the operator's keys over it. A new preset needs its file
// and recordings of the CMS's responses.
package presets

import "embed"

// FS has a file for each preset: strapi5.yaml.
//
//go:embed *.yaml
var FS embed.FS
