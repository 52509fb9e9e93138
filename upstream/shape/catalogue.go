package shape

// Summary is the catalogue summary object, served at /gvapp/ (docs/interface.md, section 2.1).
type Summary struct {
	Artist  []Artist  `json:"artist"`
	Artwork []Artwork `json:"artwork"`
	Gallery []Gallery `json:"gallery"`
}

var summaries = tableOf("Summary",
	row("artist", func(s *Summary) *[]Artist { return &s.Artist }, listOf(artists)),
	row("artwork", func(s *Summary) *[]Artwork { return &s.Artwork }, listOf(artworks)),
	row("gallery", func(s *Summary) *[]Gallery { return &s.Gallery }, listOf(galleries)),
)

// Artist is an element of a Summary's artist (docs/interface.md, section 2.2), served at /gvapp/.
type Artist struct {
	ID             int64       `json:"id"`
	Name           string      `json:"name"`
	GalleryArtists *GalleryRef `json:"gallery_artists"` // the gallery that the artist is tied to
	Visible        bool        `json:"visible"`
	Tag            []string    `json:"tag"`
}

var artists = tableOf("Artist",
	row("id", func(a *Artist) *int64 { return &a.ID }, id),
	row("name", func(a *Artist) *string { return &a.Name }, text),
	row("gallery_artists", func(a *Artist) **GalleryRef { return &a.GalleryArtists }, related(galleryRefs)),
	row("visible", func(a *Artist) *bool { return &a.Visible }, boolean),
	row("tag", func(a *Artist) *[]string { return &a.Tag }, tags),
)

// GalleryRef is the gallery of an Artist (docs/interface.md, section 2.3), served at /gvapp/.
type GalleryRef struct {
	ID           int64    `json:"id"`
	Title        string   `json:"title"`
	ArtKunstkoop bool     `json:"art_kunstkoop"`
	KunstAanZet  bool     `json:"kunst_aan_zet"`
	Tag          []string `json:"tag"`
}

var galleryRefs = tableOf("GalleryRef",
	row("id", func(g *GalleryRef) *int64 { return &g.ID }, id),
	row("title", func(g *GalleryRef) *string { return &g.Title }, text),
	row("art_kunstkoop", func(g *GalleryRef) *bool { return &g.ArtKunstkoop }, boolean),
	row("kunst_aan_zet", func(g *GalleryRef) *bool { return &g.KunstAanZet }, boolean),
	row("tag", func(g *GalleryRef) *[]string { return &g.Tag }, tags),
)

// Artwork is an element of a Summary's artwork (docs/interface.md, section 2.4), served at /gvapp/.
type Artwork struct {
	ID          int64    `json:"id"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Tag         []string `json:"tag"`
}

var artworks = tableOf("Artwork",
	row("id", func(a *Artwork) *int64 { return &a.ID }, id),
	row("title", func(a *Artwork) *string { return &a.Title }, text),
	row("description", func(a *Artwork) *string { return &a.Description }, text),
	row("tag", func(a *Artwork) *[]string { return &a.Tag }, tags),
)

// readSummary reads the catalogue. An object that has other fields but none of the three lists is
// something else, an error in JSON for one, and not an empty catalogue.
func readSummary(d *decoder, s *Summary) error {
	err := summaries.read(d, s)
	if err == nil && d.repairs.Count(KindUnknown) > 0 && d.repairs.Count(KindMissing) >= len(summaries.names) &&
		len(s.Artist)+len(s.Artwork)+len(s.Gallery) == 0 {
		return d.refused("an object with artist, artwork and gallery", "one with other fields only")
	}
	return err
}
