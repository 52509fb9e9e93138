package mapping

import (
	"net/url"
)

// The REST interface of Strapi 4 and 5: relations come only where populate names them, level by
// level. createdAt does not change when an item is published again, while the integer id of Strapi
// 5 does, and with it the order that is not asked for.
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

// flatten gives an object of Strapi 5 its documented names and an id that outlives publishing: the
// integer id is another one after each.
func flatten(object map[string]any, ids string) any {
	stamps(object)
	if text, ok := object["documentId"].(string); ok && ids != "number" {
		object["id"] = stableID(text)
	}
	return parentID(object)
}

// unwrap takes Strapi 4's {"data": …} and {"id", "attributes"} away. Members have been unwrapped
// before, so what is at data is an object without attributes, a list, or null. Components are not
// wrapped, and stay.
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

// stamps adds the documented names of the timestamps, where the type has no fields of these names
// of its own.
func stamps(object map[string]any) {
	for theirs, ours := range map[string]string{"createdAt": "created_at", "updatedAt": "updated_at"} {
		value, there := object[theirs]
		if _, taken := object[ours]; there && !taken {
			object[ours] = value
		}
	}
}

// parentID makes the parent of a city what it is in a CMS that does not expand it: an id.
func parentID(object map[string]any) any {
	if parent, ok := object["parent"].(map[string]any); ok {
		if id, ok := parent["id"]; ok {
			object["parent"] = id
		}
	}
	return object
}

// unpublished knows a draft by its publishedAt, which is null. A type without drafts has either
// none or a time.
func unpublished(object map[string]any) string {
	if at, there := object["publishedAt"]; there && at == nil {
		return "publishedAt"
	}
	return ""
}
