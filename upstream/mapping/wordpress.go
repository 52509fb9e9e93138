package mapping

import "net/url"

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
	open:         openPlain,
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
