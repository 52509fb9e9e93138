package shape

import (
	"bytes"

	"vitrine/upstream/guard"
)

// Type describes a documented type, its fields in the documented order.
type Type struct {
	Name   string
	Fields []Field
}

// The kinds of fields.
var (
	// id is a required integer.
	id = kind{Field: Field{Type: "integer"}, read: (*decoder).integer}
	// integer is an integer that the CMS may leave out, which is counted.
	integer = kind{Field: Field{Type: "integer", Null: true}, read: orElse("null", KindVacant, (*decoder).integer)}
	// nullable is an integer for which null is documented too.
	nullable  = kind{Field: Field{Type: "integer", Null: true}, read: (*decoder).nullable}
	text      = surveyed(guard.Text, kind{Field: Field{Type: "text"}, read: orElse(`""`, KindNull, (*decoder).string)})
	boolean   = surveyed(guard.Flag, kind{Field: Field{Type: "boolean"}, read: orElse("false", KindNull, (*decoder).boolean)})
	timestamp = kind{Field: Field{Type: "timestamp"}, read: orElse(`""`, KindNull, (*decoder).timestamp)}
	tags      = surveyed(guard.Text, kind{Field: Field{Type: "text", List: true}, read: listOf(text.read)})
	// asIs has no documented type: any JSON value, passed through as sent.
	asIs = kind{Field: Field{Type: "any"}, read: (*decoder).asIs}
	// listAsIs is a list of values of no documented type.
	listAsIs = kind{Field: Field{Type: "any", List: true}, read: orElse("[]", KindNull, (*decoder).listAsIs)}
	// countryID is the id of a country, or the id out of a whole country, which is what a CMS sends
	// that has its relations expanded.
	countryID = kind{Field: Field{Type: "integer", Null: true}, read: (*decoder).countryID}
)

// surveyed has the survey count the fields of a kind.
func surveyed(as guard.FieldKind, k kind) kind {
	k.counted, k.as = true, as
	return k
}

func (d *decoder) nullable(dst []byte) ([]byte, error) {
	if !d.absent && d.json.PeekKind() == 'n' {
		return append(dst, "null"...), d.step()
	}
	return integer.read(d, dst)
}

// countryRef is a country of which only the id is wanted.
var countryRef = tableOf("Country", id.named("id"), kind{read: func(d *decoder, dst []byte) ([]byte, error) {
	if d.absent {
		return dst, nil
	}
	return dst, d.skip()
}}.named("name", "created_at", "updated_at"))

func (d *decoder) countryID(dst []byte) ([]byte, error) {
	if d.absent || d.json.PeekKind() != '{' {
		return integer.read(d, dst)
	}
	d.note(KindRelated)
	start := len(dst)
	dst, err := countryRef.read(d, dst)
	if err != nil {
		return dst, err
	}
	rest := dst[start+len(`{"id":`):]
	return append(dst[:start], rest[:bytes.IndexByte(rest, ',')]...), nil
}

// list is a list of objects.
func list(t *table) kind {
	return kind{Field: Field{Type: t.name, List: true}, read: listOf(t.read), of: t}
}

const (
	aList, anObject = "a list, as the CMS sends it even if empty", "an object or null"
	unexpanded      = ": the relation is not expanded, or not permitted"
)

// relatedList is a list that another object refers to.
func relatedList(t *table) kind {
	return relation(aList, true, kind{Field: Field{Type: t.name, List: true}, read: listOf(present(object("an object", t.read))), of: t})
}

// related is an object that another one refers to, or null.
func related(t *table) kind {
	return relation(anObject, true, kind{Field: Field{Type: t.name, Null: true}, read: orElse("null", KindVacant, object(anObject, t.read)), of: t})
}

// relation refuses a relation that did not come, or counts it unless nothing is lost without it.
func relation(want string, counted bool, k kind) kind {
	read := k.read
	k.read = func(d *decoder, dst []byte) ([]byte, error) {
		switch {
		case d.absent && d.expanded:
			return dst, d.refused(want, "nothing"+unexpanded)
		case d.absent && counted:
			d.lacking.Add(d.here)
		}
		return read(d, dst)
	}
	return surveyed(guard.Relation, k)
}

// object refuses an id in place of a related object.
func object(want string, read reader) reader {
	return func(d *decoder, dst []byte) ([]byte, error) {
		if k := d.json.PeekKind(); d.expanded && (k == '0' || k == '"') {
			return dst, d.refused(want, "an id"+unexpanded)
		}
		return read(d, dst)
	}
}

// present leaves a null out of a list: it stands for an item that the CMS did not send.
func present(read reader) reader {
	return func(d *decoder, dst []byte) ([]byte, error) {
		if d.json.PeekKind() != 'n' {
			return read(d, dst)
		}
		d.dangling.Add(d.here)
		return dst, d.step()
	}
}

// listAsIs is asIs, which with expanded relations is a list of objects.
func (d *decoder) listAsIs(dst []byte) ([]byte, error) {
	if d.expanded && d.json.PeekKind() == '[' {
		return array(present(object("an object", (*decoder).asIs)))(d, dst)
	}
	return d.asIs(dst)
}

// The documented types; sections are those of docs/interface.md.
var (
	// Section 2.1, the object served at /gvapp/.
	summary = tableOf("Summary", list(artist).named("artist"), list(artwork).named("artwork"), list(gallery).named("gallery"))
	// Section 2.2. gallery_artists is the gallery that the artist is tied to.
	artist = tableOf("Artist", id.named("id"), text.named("name"), related(galleryRef).named("gallery_artists"),
		boolean.named("visible"), tags.named("tag"))
	// Section 2.3.
	galleryRef = tableOf("GalleryRef", id.named("id"), text.named("title"),
		boolean.named("art_kunstkoop", "kunst_aan_zet"), tags.named("tag"))
	// Section 2.4.
	artwork = tableOf("Artwork", id.named("id"), text.named("title", "description"), tags.named("tag"))
	// Section 2.5.
	gallery = tableOf("Gallery", id.named("id"), text.named("title", "about"), relatedList(address).named("address"),
		boolean.named("art_kunstkoop", "kunst_aan_zet"), tags.named("tag"))
	// Section 2.6. nr may contain letters.
	address = tableOf("Address", id.named("id"), text.named("street", "nr", "postal_code", "google_map_link"),
		timestamp.named("created_at", "updated_at"), related(city).named("city"), related(country).named("country"))
	// Section 2.7. typeof is a label, with the blank at its end; parent has no known type.
	city = tableOf("City", id.named("id"), text.named("typeof", "name", "zip", "description"), nullable.named("order_num"),
		timestamp.named("created_at", "updated_at"), relation(anObject, false, countryID).named("country"), asIs.named("parent"))
	// Section 2.8.
	country = tableOf("Country", id.named("id"), text.named("name"), timestamp.named("created_at", "updated_at"))
	// Section 2.9, an element of the array served at /cms/rules/. exlude_pages is spelled so, and a
	// list of no known shape.
	ruleSet = tableOf("RuleSet", id.named("id"), text.named("background_image"), relatedList(pageRule).named("page_rules"),
		relation(aList, false, listAsIs).named("exlude_pages"), text.named("title"), asIs.named("page_depth", "page_view_count", "days_delay", "time"),
		boolean.named("visible"), timestamp.named("created_at", "updated_at"))
	// Section 2.10. The units of days_delay and time are not documented.
	pageRule = tableOf("PageRule", id.named("id"), text.named("background_image", "title"), related(page).named("page"),
		text.named("name"), integer.named("page_view_count", "days_delay", "time"), timestamp.named("created_at", "updated_at"))
	// Section 2.11. url is a route pattern: /nl/kunstwerk/:id/:title.
	page = tableOf("Page", id.named("id"), text.named("title", "url"), timestamp.named("created_at", "updated_at"))
	// Section 2.12, an element of the array served at /gvapp/singlebanner. Links are relative to the
	// site: /en/….
	banner = tableOf("Banner", id.named("id"), text.named("title_en", "title_nl", "title_fr",
		"button_text_en", "button_text_nl", "button_text_fr", "redirect_link_en", "redirect_link_nl", "redirect_link_fr"),
		boolean.named("language_en", "language_nl", "language_fr"), timestamp.named("created_at", "updated_at"))
)

var tables = []*table{summary, artist, galleryRef, artwork, gallery, address, city, country, ruleSet, pageRule, page, banner}

// tableNamed is the table of a documented type, nil of any other.
func tableNamed(name string) *table {
	for _, t := range tables {
		if t.name == name {
			return t
		}
	}
	return nil
}

// Types describes all documented types, in the order of docs/interface.md.
func Types() (all []Type) {
	for _, t := range tables {
		described := Type{Name: t.name}
		for _, f := range t.fields {
			described.Fields = append(described.Fields, f.Field)
		}
		all = append(all, described)
	}
	return all
}
