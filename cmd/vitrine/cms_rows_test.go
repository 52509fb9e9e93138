package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// rows are those that every recorded CMS was filled with. documented makes the documents of them by
// docs/interface.md alone, with none of the code that is under test.
type rows struct {
	tables map[string][]map[string]any
	// documents are the documentIds of Strapi 5 by table and id; nil where ids are the rows' own.
	documents map[string]map[float64]string
	// wp is set where the CMS is WordPress.
	wp bool
	// times are the tables whose timestamps the CMS made itself.
	times map[string]bool
}

func labRows(t *testing.T) *rows {
	t.Helper()
	r := &rows{times: map[string]bool{"CITIES": true, "COUNTRIES": true, "PAGES": true}}
	text, err := os.ReadFile("../../upstream/upstreamtest/recorded/lab-rows.json")
	if err = errors.Join(err, json.Unmarshal(text, &r.tables)); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rows) without(table string, id float64) {
	r.tables[table] = slices.DeleteFunc(r.tables[table], func(row map[string]any) bool { return row["id"] == id })
}

func (r *rows) unstamped(tables ...string) {
	for _, table := range tables {
		r.times[table] = true
	}
}

func (r *rows) order(table string, ids ...float64) {
	slices.SortFunc(r.tables[table], func(a, b map[string]any) int {
		return slices.Index(ids, a["id"].(float64)) - slices.Index(ids, b["id"].(float64))
	})
}

// sometime stands for a timestamp that the rows do not know.
const sometime = "sometime"

func (r *rows) documented() map[shape.Resource]any {
	return map[shape.Resource]any{
		shape.Catalogue: map[string]any{
			"artist": each(r, "ARTISTS", func(a map[string]any) any {
				return map[string]any{
					"id": r.id("ARTISTS", a["id"]), "name": text(a["name"]), "gallery_artists": r.galleryRef(a["gallery_artists"]),
					"visible": truth(a["visible"]), "tag": rowList(a["tag"]),
				}
			}),
			"artwork": each(r, "ARTWORKS", func(a map[string]any) any {
				return map[string]any{
					"id": r.id("ARTWORKS", a["id"]), "title": text(a["title"]), "description": text(a["description"]), "tag": rowList(a["tag"]),
				}
			}),
			"gallery": each(r, "GALLERIES", func(g map[string]any) any {
				address := []any{}
				for _, a := range r.tables["ADDRESSES"] {
					if a["gallery"] == g["id"] {
						address = append(address, r.address(a))
					}
				}
				return map[string]any{
					"id": r.id("GALLERIES", g["id"]), "title": text(g["title"]), "about": text(g["about"]), "address": address,
					"art_kunstkoop": truth(g["art_kunstkoop"]), "kunst_aan_zet": truth(g["kunst_aan_zet"]), "tag": rowList(g["tag"]),
				}
			}),
		},
		shape.Rules: each(r, "RULES", func(s map[string]any) any {
			pages := []any{}
			for _, p := range r.tables["PAGE_RULES"] {
				if p["rule"] == s["id"] {
					pages = append(pages, r.stamped("PAGE_RULES", p, map[string]any{
						"id": r.id("PAGE_RULES", p["id"]), "background_image": text(p["background_image"]), "title": text(p["title"]),
						"page": r.page(p["page"]), "name": text(p["name"]), "page_view_count": p["page_view_count"],
						"days_delay": p["days_delay"], "time": p["time"],
					}))
				}
			}
			excluded := []any{}
			for _, id := range rowList(s["exlude_pages"]) {
				excluded = append(excluded, r.page(id))
			}
			return r.stamped("RULES", s, map[string]any{
				"id": r.id("RULES", s["id"]), "background_image": text(s["background_image"]), "page_rules": pages,
				"exlude_pages": excluded, "title": text(s["title"]), "page_depth": s["page_depth"],
				"page_view_count": s["page_view_count"], "days_delay": s["days_delay"], "time": s["time"], "visible": truth(s["visible"]),
			})
		}),
		shape.Banners: each(r, "BANNERS", func(b map[string]any) any {
			banner := map[string]any{"id": r.id("BANNERS", b["id"])}
			for _, language := range []string{"en", "nl", "fr"} {
				for _, field := range []string{"title_", "button_text_", "redirect_link_"} {
					banner[field+language] = text(b[field+language])
				}
				banner["language_"+language] = truth(b["language_"+language])
			}
			return r.stamped("BANNERS", b, banner)
		}),
	}
}

func each(r *rows, table string, one func(map[string]any) any) []any {
	list := []any{}
	for _, row := range r.tables[table] {
		list = append(list, one(row))
	}
	return list
}

func (r *rows) find(table string, id any) map[string]any {
	for _, row := range r.tables[table] {
		if row["id"] == id {
			return row
		}
	}
	return nil
}

func (r *rows) galleryRef(id any) any {
	g := r.find("GALLERIES", id)
	if g == nil {
		return nil
	}
	return map[string]any{
		"id": r.id("GALLERIES", id), "title": text(g["title"]), "art_kunstkoop": truth(g["art_kunstkoop"]),
		"kunst_aan_zet": truth(g["kunst_aan_zet"]), "tag": rowList(g["tag"]),
	}
}

func (r *rows) address(a map[string]any) any {
	var city, country any
	if row := r.find("COUNTRIES", a["country"]); row != nil {
		country = r.stamped("COUNTRIES", row, map[string]any{"id": r.id("COUNTRIES", row["id"]), "name": text(row["name"])})
	}
	if row := r.find("CITIES", a["city"]); row != nil {
		var parent any
		if row["parent"] != nil {
			parent = r.id("CITIES", row["parent"])
		}
		city = r.stamped("CITIES", row, map[string]any{
			"id": r.id("CITIES", row["id"]), "typeof": text(row["typeof"]), "name": text(row["name"]), "zip": text(row["zip"]),
			"description": text(row["description"]), "order_num": row["order_num"],
			"country": r.id("COUNTRIES", row["country"]), "parent": parent,
		})
	}
	made := r.stamped("ADDRESSES", a, map[string]any{
		"id": a["id"], "street": text(a["street"]), "nr": text(a["nr"]), "postal_code": text(a["postal_code"]),
		"google_map_link": text(a["google_map_link"]), "city": city, "country": country,
	})
	made["id"] = r.id("ADDRESSES", a["id"])
	return r.asWordPressHasIt(made)
}

func (r *rows) page(id any) any {
	p := r.find("PAGES", id)
	if p == nil {
		return nil
	}
	return r.stamped("PAGES", p, map[string]any{"id": r.id("PAGES", id), "title": text(p["title"]), "url": text(p["url"])})
}

// stamped adds the timestamps of a row.
func (r *rows) stamped(table string, row, made map[string]any) map[string]any {
	for _, field := range []string{"created_at", "updated_at"} {
		switch at, _ := row[field].(string); {
		case r.times[table]:
			made[field] = sometime
		case at == "":
			made[field] = ""
		default:
			made[field] = strings.TrimSuffix(at, "Z") + "000Z"
		}
	}
	return made
}

func text(v any) string { s, _ := v.(string); return s }

func truth(v any) bool { b, _ := v.(bool); return b }

func rowList(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{}
}

// id is the id that a row has in the documents.
func (r *rows) id(table string, id any) any {
	switch {
	case r.documents != nil:
		return stable(r.documents[table][id.(float64)])
	case r.wp:
		return wordpressIDs[table][id.(float64)]
	default:
		return id
	}
}

// stable is the integer that stands for a text: 53 bits of its hash, bit 30 set.
func stable(text string) float64 {
	sum := sha256.Sum256([]byte(text))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11 | 1<<30)
}

// documentIDs reads out of Strapi's recordings which documentId each row got. All of its integers
// are those of the rows, but those of artists, which every publishing has changed.
func documentIDs(t *testing.T) map[string]map[float64]string {
	t.Helper()
	ids := map[string]map[float64]string{}
	for name, table := range map[string]string{
		"artists-populate-star": "ARTISTS", "artworks-list": "ARTWORKS", "galleries-populate-deep3": "GALLERIES",
		"rules-populate-deep": "RULES", "banners-list": "BANNERS",
	} {
		_, body, _ := bytes.Cut(upstreamtest.Recording(t, "strapi5/"+name), []byte("\r\n\r\n"))
		var list struct{ Data []any }
		testkit.Must(t, json.Unmarshal(body, &list))
		collectIDs(ids, table, list.Data)
	}
	published := []float64{1, 2, 3, 4, 5, 7}
	for i, given := range []float64{2, 4, 6, 8, 10, 13} {
		ids["ARTISTS"][-published[i]] = ids["ARTISTS"][given]
	}
	for _, id := range published {
		ids["ARTISTS"][id] = ids["ARTISTS"][-id]
	}
	return ids
}

func collectIDs(ids map[string]map[float64]string, table string, v any) {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			collectIDs(ids, table, element)
		}
	case map[string]any:
		if ids[table] == nil {
			ids[table] = map[float64]string{}
		}
		ids[table][v["id"].(float64)] = v["documentId"].(string)
		for field, of := range map[string]string{
			"gallery_artists": "GALLERIES", "address": "ADDRESSES", "city": "CITIES", "country": "COUNTRIES", "parent": "CITIES",
			"page_rules": "PAGE_RULES", "page": "PAGES", "exlude_pages": "PAGES",
		} {
			collectIDs(ids, of, v[field])
		}
	}
}

// wordpressIDs are the numbers of the posts: one sequence over all types.
var wordpressIDs = map[string]map[float64]float64{
	"GALLERIES": {1: 4, 2: 5, 3: 6, 4: 7, 5: 8},
	"ARTISTS":   {1: 9, 2: 10, 3: 11, 5: 12, 7: 14},
	"ARTWORKS":  {1: 15, 2: 16, 3: 17, 4: 18, 5: 19, 6: 20},
	"BANNERS":   {1: 21, 2: 22, 3: 23, 4: 24, 5: 25},
	"ADDRESSES": {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6},
}

// wordpress changes the rows to what is left of them in WordPress.
func (r *rows) wordpress() {
	r.wp = true
	// Its typography makes other quotes of quotes, and titles are HTML.
	r.find("GALLERIES", 5.0)["title"] = "Kunst “Hoek” \\ 9¾"
	r.find("ARTWORKS", 5.0)["title"] = "“Quoted” & \\back"
}

// asWordPressHasIt leaves of an address's city and country their names, of which the example makes
// ids, and of its times the first.
func (r *rows) asWordPressHasIt(address map[string]any) any {
	if !r.wp {
		return address
	}
	address["updated_at"] = ""
	var countryID any
	if country, ok := address["country"].(map[string]any); ok {
		countryID = stable("country " + country["name"].(string))
		address["country"] = map[string]any{"id": countryID, "name": country["name"], "created_at": "", "updated_at": ""}
	}
	if city, ok := address["city"].(map[string]any); ok {
		address["city"] = map[string]any{
			"id": stable("city " + city["name"].(string)), "typeof": "", "name": city["name"], "zip": "", "description": "",
			"order_num": nil, "created_at": "", "updated_at": "", "country": countryID, "parent": nil,
		}
	}
	return address
}

var (
	documentedTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)
	wireTime       = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?$`)
)

// anyTime replaces sometime in want by what stands there in got, if that is a timestamp or empty.
// In what passes through normalizing as it came, it may be as the CMS writes it.
func anyTime(t *testing.T, want, got any) any {
	t.Helper()
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		replaced := map[string]any{}
		for name, value := range w {
			replaced[name] = anyTime(t, value, g[name])
		}
		return replaced
	case []any:
		g, _ := got.([]any)
		replaced := []any{}
		for i, value := range w {
			var other any
			if i < len(g) {
				other = g[i]
			}
			replaced = append(replaced, anyTime(t, value, other))
		}
		return replaced
	case string:
		if w != sometime {
			return w
		}
		if got == nil {
			return nil // the CMS's null, where it passes through
		}
		if at, ok := got.(string); ok && (at == "" || documentedTime.MatchString(at) || wireTime.MatchString(at)) {
			return at
		}
	}
	return want
}
