package shape

import "slices"

// Resource names one of the three documents, and is the first part of every JSON path into it.
type Resource string

const (
	// Catalogue is one object, served at /gvapp/ (docs/interface.md, section 2.1).
	Catalogue Resource = "catalogue"
	// Rules is an array of rule sets, served at /cms/rules/ (section 2.9).
	Rules Resource = "rules"
	// Banners is an array of banners, served at /gvapp/singlebanner (section 2.12).
	Banners Resource = "banners"
)

// Resources returns all resources: catalogue, rules, banners.
func Resources() []Resource { return []Resource{Catalogue, Rules, Banners} }

// Valid reports whether r is one of [Resources].
func (r Resource) Valid() bool { return slices.Contains(Resources(), r) }
