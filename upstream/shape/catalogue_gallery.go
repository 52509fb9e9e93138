package shape

import "encoding/json"

// Gallery is an element of a Summary's gallery (docs/interface.md, section 2.5), served at /gvapp/.
type Gallery struct {
	ID           int64     `json:"id"`
	Title        string    `json:"title"`
	About        string    `json:"about"`
	Address      []Address `json:"address"`
	ArtKunstkoop bool      `json:"art_kunstkoop"`
	KunstAanZet  bool      `json:"kunst_aan_zet"`
	Tag          []string  `json:"tag"`
}

var galleries = tableOf("Gallery",
	row("id", func(g *Gallery) *int64 { return &g.ID }, id),
	row("title", func(g *Gallery) *string { return &g.Title }, text),
	row("about", func(g *Gallery) *string { return &g.About }, text),
	row("address", func(g *Gallery) *[]Address { return &g.Address }, relatedList(addresses)),
	row("art_kunstkoop", func(g *Gallery) *bool { return &g.ArtKunstkoop }, boolean),
	row("kunst_aan_zet", func(g *Gallery) *bool { return &g.KunstAanZet }, boolean),
	row("tag", func(g *Gallery) *[]string { return &g.Tag }, tags),
)

// Address is an element of a Gallery's address (docs/interface.md, section 2.6), served at /gvapp/.
type Address struct {
	ID            int64     `json:"id"`
	Street        string    `json:"street"`
	Nr            string    `json:"nr"` // may contain letters
	PostalCode    string    `json:"postal_code"`
	GoogleMapLink string    `json:"google_map_link"`
	CreatedAt     Timestamp `json:"created_at"`
	UpdatedAt     Timestamp `json:"updated_at"`
	City          *City     `json:"city"`
	Country       *Country  `json:"country"`
}

var addresses = tableOf("Address",
	row("id", func(a *Address) *int64 { return &a.ID }, id),
	row("street", func(a *Address) *string { return &a.Street }, text),
	row("nr", func(a *Address) *string { return &a.Nr }, text),
	row("postal_code", func(a *Address) *string { return &a.PostalCode }, text),
	row("google_map_link", func(a *Address) *string { return &a.GoogleMapLink }, text),
	row("created_at", func(a *Address) *Timestamp { return &a.CreatedAt }, timestamp),
	row("updated_at", func(a *Address) *Timestamp { return &a.UpdatedAt }, timestamp),
	row("city", func(a *Address) **City { return &a.City }, related(cities)),
	row("country", func(a *Address) **Country { return &a.Country }, related(countries)),
)

// City is the city of an Address (docs/interface.md, section 2.7), served at /gvapp/.
type City struct {
	ID          int64           `json:"id"`
	Typeof      string          `json:"typeof"` // a label, with the blank at its end
	Name        string          `json:"name"`
	Zip         string          `json:"zip"`
	Description string          `json:"description"`
	OrderNum    *int64          `json:"order_num"`
	CreatedAt   Timestamp       `json:"created_at"`
	UpdatedAt   Timestamp       `json:"updated_at"`
	Country     *int64          `json:"country"` // the id of a Country; nil where the CMS sent none
	Parent      json.RawMessage `json:"parent"`  // of no known type: kept as it came
}

var cities = tableOf("City",
	row("id", func(c *City) *int64 { return &c.ID }, id),
	row("typeof", func(c *City) *string { return &c.Typeof }, text),
	row("name", func(c *City) *string { return &c.Name }, text),
	row("zip", func(c *City) *string { return &c.Zip }, text),
	row("description", func(c *City) *string { return &c.Description }, text),
	row("order_num", func(c *City) **int64 { return &c.OrderNum }, nullable),
	row("created_at", func(c *City) *Timestamp { return &c.CreatedAt }, timestamp),
	row("updated_at", func(c *City) *Timestamp { return &c.UpdatedAt }, timestamp),
	row("country", func(c *City) **int64 { return &c.Country }, countryID),
	row("parent", func(c *City) *json.RawMessage { return &c.Parent }, asIs),
)

// Country is the country of an Address (docs/interface.md, section 2.8), served at /gvapp/.
type Country struct {
	ID        int64     `json:"id"`
	Name      string    `json:"name"`
	CreatedAt Timestamp `json:"created_at"`
	UpdatedAt Timestamp `json:"updated_at"`
}

var countries = tableOf("Country",
	row("id", func(c *Country) *int64 { return &c.ID }, id),
	row("name", func(c *Country) *string { return &c.Name }, text),
	row("created_at", func(c *Country) *Timestamp { return &c.CreatedAt }, timestamp),
	row("updated_at", func(c *Country) *Timestamp { return &c.UpdatedAt }, timestamp),
)

// countryID is the id of a country, or the id out of a whole country, which is what a CMS sends
// that has its relations expanded.
var countryID = kind[*int64]{
	Field: Field{Type: "integer", Null: true},
	read: func(d *decoder, to **int64) error {
		if d.absent || d.json.PeekKind() != '{' {
			return d.readInteger(to)
		}
		d.note(KindRelated)
		*to = new(int64)
		return d.object(countries.names, func(i int) error {
			switch {
			case countries.names[i] == "id":
				return d.readID(*to)
			case d.absent:
				return nil // only the id is wanted
			default:
				return d.skip()
			}
		})
	},
	append: appendIntOrNull,
}
