// Package sample is the bundled content: invented galleries, artists, artworks,
// rules and banners of the Netherlands and Belgium, in the documented shape.
//
// vitrine serves it where no CMS is set, straight from [FS]. [Handler] is the
// same content as a CMS has it, over HTTP, for demos and the compose stack.
package sample

import "embed"

// FS holds catalogue.json, rules.json and banners.json.
//
//go:embed catalogue.json rules.json banners.json
var FS embed.FS
