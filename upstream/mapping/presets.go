package mapping

import (
	"net/url"
	"slices"
	"strings"

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
	// Or a page of the PageNumber, LimitOffset or Cursor pagination.
	envelope: envelope{items: "results", total: "count", next: "next", want: "a list, or a page of one with results and next"},
}

// A CMS without a preset has one response per list, unless paging is configured.
var custom = &Preset{
	Name: "custom",
	Walk: Walk{Style: "none", Past: []int{400, 404}},
}

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

var strapiNames = map[string]string{"createdAt": "created_at", "updatedAt": "updated_at"}

var strapiEnvelope = envelope{
	items: "data", single: true, total: "meta.pagination.total", pages: "meta.pagination.pageCount",
	size: []string{"meta.pagination.limit", "meta.pagination.pageSize"}, want: "an object with data",
}

var strapiNoise = []string{"documentId", "publishedAt", "locale", "localizations", "createdAt", "updatedAt"}

var strapi5 = &Preset{
	Name:     "strapi5",
	Walk:     strapiWalk("createdAt", "documentId"),
	Converts: true,
	parts:    collections("api/", strapiParts()),
	envelope: strapiEnvelope,
	object:   stableIDs,
	names:    strapiNames,
	noise:    strapiNoise,
	Expands:  true,
	draft:    unpublished,
	key:      "documentId",
}

var strapi4 = &Preset{
	Name:     "strapi4",
	Walk:     strapiWalk("id"),
	Converts: true,
	parts:    collections("api/", strapiParts()),
	envelope: strapiEnvelope,
	object:   unwrap,
	names:    strapiNames,
	noise:    strapiNoise,
	Expands:  true,
	draft:    unpublished,
}

// stableIDs replaces the integer id of Strapi 5, which changes with each publishing.
func stableIDs(object map[string]any, ids string) any {
	if text, ok := object["documentId"].(string); ok && ids != "number" {
		object["id"] = stableID(text)
	}
	return object
}

// unwrap removes Strapi 4's {"data": …} and {"id", "attributes"}. Members are unwrapped before, so
// data is an object without attributes, a list, or null. Components have no envelope.
func unwrap(object map[string]any, _ string) any {
	if data, ok := object["data"]; ok && len(object) == 1 {
		switch data.(type) {
		case nil, map[string]any, []any:
			return data
		}
	}
	attributes, ok := object["attributes"].(map[string]any)
	_, hasID := object["id"]
	if !ok || !hasID || len(object) > 3 { // id, attributes, and perhaps documentId
		return object
	}
	attributes["id"] = object["id"]
	return attributes
}

// unpublished recognizes a draft by a null publishedAt. A type without drafts has either none or a
// time.
func unpublished(object map[string]any) string {
	if at, there := object["publishedAt"]; there && at == nil {
		return "publishedAt"
	}
	return ""
}

// Directus: fields determines how deep relations are expanded. limit=-1 asks for everything and
// gets at most the server's maximum, while a limit above that is an error; only filter_count shows
// whether it was everything.
var directus = &Preset{
	Name: "directus",
	Walk: Walk{
		Style: "offset", Param: "offset", SizeParam: "limit", All: "-1",
		Query: url.Values{"meta": {"filter_count"}, "sort": {"id"}},
	},
	Converts: true,
	parts: collections("items/", map[string]url.Values{
		"artist":  {"fields": {"*.*"}},
		"gallery": {"fields": {"*.*.*"}, "backlink": {"false"}},
		"rules":   {"fields": {"*.*.*"}, "backlink": {"false"}},
	}),
	envelope: envelope{items: "data", single: true, total: "meta.filter_count", want: "an object with data"},
	object:   farEnd,
	names:    map[string]string{"date_created": "created_at", "date_updated": "updated_at"},
	noise: []string{
		"user_created", "user_updated", "date_created", "date_updated", "sort", "gallery", "rule",
	},
	Expands: true,
	draft:   directusDraft,
}

// farEnd replaces a row of a junction table by its far end.
func farEnd(object map[string]any, _ string) any {
	if inner := junction(object); inner != nil {
		return inner
	}
	return object
}

// junction returns the far end of a row of a many-to-many relation, {"id", "rules_id", "pages_id":
// {…}}: all of its keys but the id end in _id, and one of these is expanded. If the near end is
// expanded too, as without backlink=false, the page is the far end: the only such relation in the
// documents is the pages that a rule excludes. It is nil for any other object.
func junction(object map[string]any) map[string]any {
	var far, page map[string]any
	expanded := 0
	for name, value := range object {
		if name == "id" || name == "sort" {
			continue
		}
		if !strings.HasSuffix(name, "_id") {
			return nil
		}
		if inner, ok := value.(map[string]any); ok {
			far = inner
			expanded++
			if strings.HasPrefix(name, "page") {
				page = inner
			}
		}
	}
	if expanded > 1 {
		return page
	}
	return far
}

// directusDraft recognizes an unpublished item by Directus's optional status field, which is a
// convention.
func directusDraft(object map[string]any) string {
	switch object["status"] {
	case "draft", "archived":
		return "status"
	}
	return ""
}

// WordPress: a list is bare, its counts are headers, a page past the end is a 400, and custom
// fields are under meta. It has no relations: an artist has the id of a gallery.
var wordpress = &Preset{
	Name: "wordpress",
	Walk: Walk{
		Style: "page", Param: "page", SizeParam: "per_page", Size: 100,
		Query: url.Values{"orderby": {"id"}, "order": {"asc"}},
		Past:  []int{400},
	},
	Converts:     true,
	HeaderCounts: true,
	parts:        collections("wp-json/wp/v2/", nil),
	item:         post,
	noise: []string{
		"date", "date_gmt", "modified", "modified_gmt", "guid", "slug", "status", "type", "link", "content", "excerpt",
		"featured_media", "template", "meta", "author", "comment_status", "ping_status", "sticky", "format",
		"categories", "tags", "labtags", "class_list", "_links", "_embedded",
	},
	draft: func(object map[string]any) string {
		if status, ok := object["status"].(string); ok && status != "publish" {
			return "status"
		}
		return ""
	},
	joins: true,
}

// post converts a post to an item: fields under meta move to the top, texts lose their HTML, and
// only times in UTC are used.
func post(object map[string]any) {
	title, hasTitle := rendered(object["title"])
	if hasTitle {
		object["title"] = title
	}
	if meta, ok := object["meta"].(map[string]any); ok {
		for name, value := range meta {
			object[name] = value
		}
	}
	put := func(name string, value any) {
		if _, taken := object[name]; !taken {
			object[name] = value
		}
	}
	if hasTitle {
		put("name", title)
	}
	if text, ok := rendered(object["content"]); ok {
		put("description", text)
		put("about", text)
	}
	for theirs, ours := range map[string]string{"date_gmt": "created_at", "modified_gmt": "updated_at"} {
		if at, ok := object[theirs].(string); ok {
			put(ours, at+"Z")
		}
	}
}

// rendered is the text of {"rendered": "HTML"}, or of the source {"raw": "…"}, which only users
// with the right to edit get.
func rendered(v any) (string, bool) {
	object, ok := v.(map[string]any)
	if !ok {
		return "", false
	}
	if raw, ok := object["raw"].(string); ok {
		return raw, true
	}
	text, ok := object["rendered"].(string)
	return htmlText(text), ok
}
