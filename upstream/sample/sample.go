// Package sample is the bundled content: invented galleries, artists, artworks, rules and banners
// of the Netherlands and Belgium, in the documented shape.
//
// vitrine serves it from [FS] if no CMS is configured. [Handler] serves the same content over HTTP
// as a CMS does, for demos and the compose stack.
package sample

import "embed"

// FS holds catalogue.json, rules.json and banners.json.
//
//go:embed catalogue.json rules.json banners.json
var FS embed.FS
