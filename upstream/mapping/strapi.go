package mapping

import (
	"net/url"
)

// The REST API of Strapi 4 and 5: relations are expanded only where populate names them, level by
// level. createdAt does not change when an item is published again, while the integer id of Strapi
// 5 does, and with it the default order.
func strapiParts() map[string]url.Values {
	return map[string]url.Values{
		"artist": {"populate[gallery_artists]": {"true"}},
		"gallery": {
			"populate[address][populate][city][populate]": {"*"},
			"populate[address][populate][country]":        {"true"},
		},
		"rules": {
			"populate[page_rules][populate][0]": {"page"},
			"populate[exlude_pages]":            {"true"},
		},
	}
}

func strapiWalk(sort ...string) Walk {
	query := url.Values{}
	for i, field := range sort {
		query.Set("sort["+string(rune('0'+i))+"]", field)
	}
	return Walk{
		Style: "page", Param: "pagination[page]", SizeParam: "pagination[pageSize]", Size: 100,
		Query: query,
	}
}

var strapiNoise = []string{"documentId", "publishedAt", "locale", "localizations", "createdAt", "updatedAt"}

var strapi5 = &Preset{
	Name:     "strapi5",
	Walk:     strapiWalk("createdAt", "documentId"),
	Converts: true,
	parts:    collections("api/", strapiParts()),
	open:     openData(strapiMeta),
	object:   flatten,
	noise:    strapiNoise,
	strict:   true,
	draft:    unpublished,
	key:      "documentId",
}

var strapi4 = &Preset{
	Name:     "strapi4",
	Walk:     strapiWalk("id"),
	Converts: true,
	parts:    collections("api/", strapiParts()),
	open:     openData(strapiMeta),
	object: func(object map[string]any, _ string) any {
		return unwrap(object)
	},
	noise:  strapiNoise,
	strict: true,
	draft:  unpublished,
}

// flatten gives an object of Strapi 5 its documented names and a stable id: the integer id changes
// with each publishing.
func flatten(object map[string]any, ids string) any {
	stamps(object)
	if text, ok := object["documentId"].(string); ok && ids != "number" {
		object["id"] = stableID(text)
	}
	return parentID(object)
}

// unwrap removes Strapi 4's {"data": …} and {"id", "attributes"}. Members are unwrapped before, so
// data is an object without attributes, a list, or null. Components have no envelope.
func unwrap(object map[string]any) any {
	if data, ok := object["data"]; ok && len(object) == 1 {
		switch data.(type) {
		case nil, map[string]any, []any:
			return data
		}
	}
	attributes, ok := object["attributes"].(map[string]any)
	_, hasID := object["id"]
	if !ok || !hasID || len(object) > 3 { // id, attributes, and perhaps documentId
		stamps(object)
		return parentID(object)
	}
	attributes["id"] = object["id"]
	stamps(attributes)
	return parentID(attributes)
}

// stamps adds the documented names of the timestamps, unless the type has fields of these names.
func stamps(object map[string]any) {
	for theirs, ours := range map[string]string{"createdAt": "created_at", "updatedAt": "updated_at"} {
		value, there := object[theirs]
		if _, taken := object[ours]; there && !taken {
			object[ours] = value
		}
	}
}

// parentID replaces the parent of a city by its id, as in a CMS that does not expand it.
func parentID(object map[string]any) any {
	if parent, ok := object["parent"].(map[string]any); ok {
		if id, ok := parent["id"]; ok {
			object["parent"] = id
		}
	}
	return object
}

// unpublished recognizes a draft by a null publishedAt. A type without drafts has either none or a
// time.
func unpublished(object map[string]any) string {
	if at, there := object["publishedAt"]; there && at == nil {
		return "publishedAt"
	}
	return ""
}
