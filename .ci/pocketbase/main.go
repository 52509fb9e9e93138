// Command pocketbase is PocketBase with the collections of vitrine's preset, filled: 290 artworks, 20
// artists, 12 galleries, 12 banners. The superuser is editor@example.org, with the password
// example-password. It takes PocketBase's own arguments: serve --http 127.0.0.1:8090 --dir DIR.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/pocketbase/pocketbase"
	"github.com/pocketbase/pocketbase/core"
)

func main() {
	app := pocketbase.NewWithConfig(pocketbase.Config{HideStartBanner: true})
	app.OnServe().BindFunc(func(e *core.ServeEvent) error {
		if _, err := e.App.FindCollectionByNameOrId("artworks"); err == nil {
			return e.Next()
		}
		if err := e.App.RunInTransaction(fill); err != nil {
			return err
		}
		return e.Next()
	})
	if err := app.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// record is what a record is made of.
type record = map[string]any

// fill makes the collections and their records. What a record refers to comes before it.
func fill(app core.App) error {
	f := filler{app: app}
	f.superuser()

	f.collection("countries", "name")
	f.add("countries", record{"name": "Nederland"})
	f.collection("cities", "typeof name zip description order_num:number country:countries parent:json")
	f.add("cities", record{"name": "Amsterdam", "typeof": "city ", "country": id("countries", 1)})
	f.collection("addresses", "street nr postal_code google_map_link city:cities country:countries")
	f.collection("galleries", "title about address:addresses* art_kunstkoop:bool kunst_aan_zet:bool tag:tags")
	for n := range 12 {
		f.add("addresses", record{"street": "Kade", "nr": fmt.Sprint(n + 1), "city": id("cities", 1), "country": id("countries", 1)})
		f.add("galleries", record{"title": fmt.Sprint("Galerie ", n+1), "about": "Over", "address": []string{id("addresses", n+1)}, "tag": []string{"home"}})
	}
	f.collection("artists", "name gallery_artists:galleries visible:bool tag:tags")
	for n := range 20 {
		f.add("artists", record{"name": fmt.Sprint("Maker ", n+1), "gallery_artists": id("galleries", n%12+1), "visible": true, "tag": []string{"home"}})
	}
	f.collection("artworks", "title description tag:tags")
	for n := range 290 {
		f.add("artworks", record{"title": fmt.Sprint("Werk ", n+1), "description": "<p>Olieverf</p>", "tag": []string{"event"}})
	}
	f.collection("pages", "title url")
	f.add("pages", record{"title": "Kunst", "url": "/nl/kunstwerk/:id/:title"})
	f.collection("page_rules", "background_image title page:pages name page_view_count:number days_delay:number time:number")
	f.add("page_rules", record{"title": "Pop-up", "name": "pop", "page": id("pages", 1), "page_view_count": 3})
	f.collection("rules", "background_image title page_rules:page_rules* exlude_pages:pages* page_depth:json page_view_count:json days_delay:json time:json visible:bool")
	for n := range 3 {
		f.add("rules", record{"title": fmt.Sprint("Regel ", n+1), "page_rules": []string{id("page_rules", 1)}, "visible": true})
	}
	f.collection("banners", "title_en title_nl title_fr button_text_en button_text_nl button_text_fr "+
		"redirect_link_en redirect_link_nl redirect_link_fr language_en:bool language_nl:bool language_fr:bool")
	for n := range 12 {
		f.add("banners", record{"title_en": fmt.Sprint("Action ", n+1), "title_nl": fmt.Sprint("Actie ", n+1), "language_nl": true, "redirect_link_nl": "/nl/kunst"})
	}
	return f.err
}

// filler fills an app until an error.
type filler struct {
	app   core.App
	count map[string]int // of the records, by collection
	err   error
}

func (f *filler) save(m core.Model) {
	if f.err == nil {
		f.err = f.app.Save(m)
	}
}

func (f *filler) found(name string) *core.Collection {
	c, err := f.app.FindCollectionByNameOrId(name)
	if err != nil && f.err == nil {
		f.err = err
	}
	return c
}

func (f *filler) superuser() {
	r := core.NewRecord(f.found(core.CollectionNameSuperusers))
	r.SetEmail("editor@example.org")
	r.SetPassword("example-password")
	f.save(r)
}

// collection makes one that everybody may read. Its fields are NAME or NAME:KIND; the kind is bool,
// number, json, tags, or a collection that is referred to, with * for several records of it.
func (f *filler) collection(name, fields string) {
	c := core.NewBaseCollection(name)
	everybody := ""
	c.ListRule, c.ViewRule = &everybody, &everybody
	for field := range strings.FieldsSeq(fields) {
		field, kind, _ := strings.Cut(field, ":")
		switch to, several := strings.CutSuffix(kind, "*"); kind {
		case "":
			c.Fields.Add(&core.TextField{Name: field})
		case "bool":
			c.Fields.Add(&core.BoolField{Name: field})
		case "number":
			c.Fields.Add(&core.NumberField{Name: field})
		case "json":
			c.Fields.Add(&core.JSONField{Name: field})
		case "tags":
			c.Fields.Add(&core.SelectField{Name: field, Values: []string{"general", "home", "event"}, MaxSelect: 3})
		default:
			most := 1
			if several {
				most = 10
			}
			if related := f.found(to); related != nil {
				c.Fields.Add(&core.RelationField{Name: field, CollectionId: related.Id, MaxSelect: most})
			}
		}
	}
	c.Fields.Add(&core.AutodateField{Name: "created", OnCreate: true}, &core.AutodateField{Name: "updated", OnCreate: true, OnUpdate: true})
	f.save(c)
}

func (f *filler) add(collection string, values record) {
	c := f.found(collection)
	if f.err != nil {
		return
	}
	if f.count == nil {
		f.count = map[string]int{}
	}
	f.count[collection]++
	r := core.NewRecord(c)
	r.Id = id(collection, f.count[collection])
	r.Load(values)
	f.save(r)
}

// id is that of the nth record of a collection: 15 characters, as PocketBase wants them.
func id(collection string, n int) string {
	name := strings.ReplaceAll(collection, "_", "")
	name = name[:min(len(name), 9)]
	return fmt.Sprintf("%s%0*d", name, 15-len(name), n)
}
