package mapping

import (
	"slices"

	"vitrine/upstream/shape"
)

// presets, in the order of the documentation.
var presets = []*Preset{drf, strapi4, strapi5, directus, wordpress, custom}

// Presets returns their names, in the order of the documentation.
func Presets() []string {
	names := make([]string, 0, len(presets))
	for _, p := range presets {
		names = append(names, p.Name)
	}
	return names
}

// Lookup returns the preset of that name.
func Lookup(name string) (*Preset, bool) {
	i := slices.IndexFunc(presets, func(p *Preset) bool { return p.Name == name })
	if i < 0 {
		return nil, false
	}
	return presets[i], true
}

// Django REST Framework's documents are the documented ones.
var drf = &Preset{
	Name: "drf",
	Walk: Walk{Style: "link", Past: []int{404}},
	parts: map[shape.Resource][]Part{
		shape.Catalogue: {{Path: "gvapp/"}},
		shape.Rules:     {{Path: "cms/rules/"}},
		shape.Banners:   {{Path: "gvapp/singlebanner"}},
	},
	open: openDRF,
}

// A CMS without a preset has one response per list, unless paging is configured.
var custom = &Preset{
	Name: "custom",
	Walk: Walk{Style: "none", Past: []int{400, 404}},
	open: openPlain,
}
