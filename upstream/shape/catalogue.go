package shape

// Summary is the catalogue summary object, served at /gvapp/ (section 2.1).
type Summary struct {
	Artist  []Artist  `json:"artist"`
	Artwork []Artwork `json:"artwork"`
	Gallery []Gallery `json:"gallery"`
}

// Artist is an element of a Summary's artist (section 2.2), served at /gvapp/.
type Artist struct {
	ID             int64       `json:"id"`
	Name           string      `json:"name"`
	GalleryArtists *GalleryRef `json:"gallery_artists"` // the gallery that the artist is tied to
	Visible        bool        `json:"visible"`
	Tag            []string    `json:"tag"`
}

// GalleryRef is the gallery of an Artist (section 2.3), served at /gvapp/.
type GalleryRef struct {
	ID           int64    `json:"id"`
	Title        string   `json:"title"`
	ArtKunstkoop bool     `json:"art_kunstkoop"`
	KunstAanZet  bool     `json:"kunst_aan_zet"`
	Tag          []string `json:"tag"`
}

// Artwork is an element of a Summary's artwork (section 2.4), served at /gvapp/.
type Artwork struct {
	ID          int64    `json:"id"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Tag         []string `json:"tag"`
}

var (
	summaryFields    = []string{"artist", "artwork", "gallery"}
	artistFields     = []string{"id", "name", "gallery_artists", "visible", "tag"}
	galleryRefFields = []string{"id", "title", "art_kunstkoop", "kunst_aan_zet", "tag"}
	artworkFields    = []string{"id", "title", "description", "tag"}
)

// decode reads the catalogue. An object that has other fields but none of the
// three lists is something else, an error in JSON for one, and not an empty
// catalogue.
func (s *Summary) decode(d *decoder) error {
	found := false
	err := d.object(summaryFields, func(field string) error {
		found = found || !d.absent
		switch field {
		case "artist":
			return list(d, &s.Artist, (*Artist).decode)
		case "artwork":
			return list(d, &s.Artwork, (*Artwork).decode)
		default:
			return list(d, &s.Gallery, (*Gallery).decode)
		}
	})
	if err == nil && !found && d.repairs.Count(KindUnknown) > 0 {
		return d.refused("an object with artist, artwork and gallery", "one with other fields only")
	}
	return err
}

func (s *Summary) appendTo(dst []byte) []byte {
	dst = appendArray(append(dst, `{"artist":`...), s.Artist, (*Artist).appendTo)
	dst = appendArray(append(dst, `,"artwork":`...), s.Artwork, (*Artwork).appendTo)
	dst = appendArray(append(dst, `,"gallery":`...), s.Gallery, (*Gallery).appendTo)
	return append(dst, '}')
}

func (a *Artist) decode(d *decoder) error {
	return d.object(artistFields, func(field string) error {
		switch field {
		case "id":
			return d.readID(&a.ID)
		case "name":
			return d.readText(&a.Name)
		case "gallery_artists":
			return related(d, &a.GalleryArtists, (*GalleryRef).decode)
		case "visible":
			return d.readBool(&a.Visible)
		default:
			return d.readTags(&a.Tag)
		}
	})
}

func (a *Artist) appendTo(dst []byte) []byte {
	dst = appendInt(dst, `{"id":`, a.ID)
	dst = appendText(dst, `,"name":`, a.Name)
	dst = appendObject(dst, `,"gallery_artists":`, a.GalleryArtists, (*GalleryRef).appendTo)
	dst = appendBool(dst, `,"visible":`, a.Visible)
	dst = appendTags(dst, a.Tag)
	return append(dst, '}')
}

func (g *GalleryRef) decode(d *decoder) error {
	return d.object(galleryRefFields, func(field string) error {
		switch field {
		case "id":
			return d.readID(&g.ID)
		case "title":
			return d.readText(&g.Title)
		case "art_kunstkoop":
			return d.readBool(&g.ArtKunstkoop)
		case "kunst_aan_zet":
			return d.readBool(&g.KunstAanZet)
		default:
			return d.readTags(&g.Tag)
		}
	})
}

func (g *GalleryRef) appendTo(dst []byte) []byte {
	dst = appendInt(dst, `{"id":`, g.ID)
	dst = appendText(dst, `,"title":`, g.Title)
	dst = appendBool(dst, `,"art_kunstkoop":`, g.ArtKunstkoop)
	dst = appendBool(dst, `,"kunst_aan_zet":`, g.KunstAanZet)
	dst = appendTags(dst, g.Tag)
	return append(dst, '}')
}

func (a *Artwork) decode(d *decoder) error {
	return d.object(artworkFields, func(field string) error {
		switch field {
		case "id":
			return d.readID(&a.ID)
		case "title":
			return d.readText(&a.Title)
		case "description":
			return d.readText(&a.Description)
		default:
			return d.readTags(&a.Tag)
		}
	})
}

func (a *Artwork) appendTo(dst []byte) []byte {
	dst = appendInt(dst, `{"id":`, a.ID)
	dst = appendText(dst, `,"title":`, a.Title)
	dst = appendText(dst, `,"description":`, a.Description)
	dst = appendTags(dst, a.Tag)
	return append(dst, '}')
}
