package mapping

import "vitrine/upstream/shape"

// relation is a field that is an object of another kind, or a list of them.
type relation struct {
	field  string
	many   bool
	loose  bool // can be an id instead
	nested []relation
}

var (
	cityRelations    = []relation{{field: "country", loose: true}}
	addressRelations = []relation{{field: "city", nested: cityRelations}, {field: "country"}}
	relations        = map[string][]relation{
		"catalogue.artist":  {{field: "gallery_artists"}},
		"catalogue.gallery": {{field: "address", many: true, nested: addressRelations}},
		"rules": {
			{field: "page_rules", many: true, nested: []relation{{field: "page"}}},
			{field: "exlude_pages", many: true},
		},
	}
)

// Check refuses an item without a relation for which the CMS would send null or an empty list: it
// was not expanded, or is not permitted. list is the path of the item's list, path its own.
func (p *Preset) Check(list, path string, v any) error {
	if !p.strict {
		return nil
	}
	if list == "catalogue" { // all of it in one response
		object, _ := v.(map[string]any) // normalizing refuses anything else
		for _, name := range []string{"artist", "gallery"} {
			items, _ := object[name].([]any)
			for i, item := range items {
				if err := checkRelations(index(join(path, name), i), item, relations[join(list, name)]); err != nil {
					return err
				}
			}
		}
	}
	return checkRelations(path, v, relations[list])
}

func checkRelations(path string, v any, wanted []relation) error {
	object, ok := v.(map[string]any)
	if !ok {
		return nil // normalizing refuses it
	}
	for _, r := range wanted {
		at := join(path, r.field)
		value, there := object[r.field]
		switch {
		case !there && r.many:
			return refuse(at, "a list, as the CMS sends it even if empty", "nothing: the relation is not expanded, or not permitted")
		case !there:
			return refuse(at, "an object or null", "nothing: the relation is not expanded, or not permitted")
		case value == nil:
		case r.many:
			elements, ok := value.([]any)
			if !ok {
				continue // normalizing refuses it
			}
			for i, element := range elements {
				if _, ok := element.(map[string]any); !ok {
					return refuse(index(at, i), "an object", "an id: the relation is not expanded, or not permitted")
				}
				if err := checkRelations(index(at, i), element, r.nested); err != nil {
					return err
				}
			}
		default:
			if _, ok := value.(map[string]any); !ok && !r.loose {
				return refuse(at, "an object or null", "an id: the relation is not expanded, or not permitted")
			}
			if err := checkRelations(at, value, r.nested); err != nil {
				return err
			}
		}
	}
	return nil
}

// Join puts the galleries of a catalogue into its artists, for a CMS that sends their ids only.
// lists are by name; an unknown id is refused.
func (p *Preset) Join(r shape.Resource, lists map[string][]any) error {
	if !p.joins || r != shape.Catalogue {
		return nil
	}
	galleries := map[string]any{}
	for _, gallery := range lists["gallery"] {
		if object, ok := gallery.(map[string]any); ok {
			galleries[number(object["id"])] = gallery
		}
	}
	for i, artist := range lists["artist"] {
		object, ok := artist.(map[string]any)
		if !ok {
			continue
		}
		id := number(object["gallery_artists"])
		switch id {
		case "":
		case "0":
			object["gallery_artists"] = nil
		default:
			gallery, found := galleries[id]
			if !found {
				return refuse(join(index("catalogue.artist", i), "gallery_artists"), "the id of a gallery of the catalogue, or 0", id)
			}
			object["gallery_artists"] = gallery
		}
	}
	return nil
}

// Joins reports whether Join has anything to do for r.
func (p *Preset) Joins(r shape.Resource) bool { return p.joins && r == shape.Catalogue }
