package mapping

import (
	"net/url"
	"strings"
)

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
	open:   openData(directusMeta),
	object: directusObject,
	noise: []string{
		"user_created", "user_updated", "date_created", "date_updated", "sort", "gallery", "rule",
	},
	strict: true,
	draft:  directusDraft,
}

// directusObject replaces a row of a junction table by its far end, and renames Directus's own
// fields to the documented names.
func directusObject(object map[string]any, _ string) any {
	for theirs, ours := range map[string]string{"date_created": "created_at", "date_updated": "updated_at"} {
		value, there := object[theirs]
		if _, taken := object[ours]; there && !taken {
			object[ours] = value
		}
	}
	if inner := junction(object); inner != nil {
		return inner
	}
	return parentID(object)
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
