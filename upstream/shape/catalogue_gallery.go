package shape

import "encoding/json"

// Gallery is an element of a Summary's gallery (section 2.5), served at /gvapp/.
type Gallery struct {
	ID           int64     `json:"id"`
	Title        string    `json:"title"`
	About        string    `json:"about"`
	Address      []Address `json:"address"`
	ArtKunstkoop bool      `json:"art_kunstkoop"`
	KunstAanZet  bool      `json:"kunst_aan_zet"`
	Tag          []string  `json:"tag"`
}

// Address is an element of a Gallery's address (section 2.6), served at /gvapp/.
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

// City is the city of an Address (section 2.7), served at /gvapp/.
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

// Country is the country of an Address (section 2.8), served at /gvapp/.
type Country struct {
	ID        int64     `json:"id"`
	Name      string    `json:"name"`
	CreatedAt Timestamp `json:"created_at"`
	UpdatedAt Timestamp `json:"updated_at"`
}

var (
	galleryFields = []string{"id", "title", "about", "address", "art_kunstkoop", "kunst_aan_zet", "tag"}
	addressFields = []string{
		"id", "street", "nr", "postal_code", "google_map_link",
		"created_at", "updated_at", "city", "country",
	}
	cityFields = []string{
		"id", "typeof", "name", "zip", "description", "order_num",
		"created_at", "updated_at", "country", "parent",
	}
	countryFields = []string{"id", "name", "created_at", "updated_at"}
)

func (g *Gallery) decode(d *decoder) error {
	return d.object(galleryFields, func(field string) error {
		switch field {
		case "id":
			return d.readID(&g.ID)
		case "title":
			return d.readText(&g.Title)
		case "about":
			return d.readText(&g.About)
		case "address":
			return list(d, &g.Address, (*Address).decode)
		case "art_kunstkoop":
			return d.readBool(&g.ArtKunstkoop)
		case "kunst_aan_zet":
			return d.readBool(&g.KunstAanZet)
		default:
			return d.readTags(&g.Tag)
		}
	})
}

func (g *Gallery) appendTo(dst []byte) []byte {
	dst = appendInt(dst, `{"id":`, g.ID)
	dst = appendText(dst, `,"title":`, g.Title)
	dst = appendText(dst, `,"about":`, g.About)
	dst = appendArray(append(dst, `,"address":`...), g.Address, (*Address).appendTo)
	dst = appendBool(dst, `,"art_kunstkoop":`, g.ArtKunstkoop)
	dst = appendBool(dst, `,"kunst_aan_zet":`, g.KunstAanZet)
	dst = appendTags(dst, g.Tag)
	return append(dst, '}')
}

func (a *Address) decode(d *decoder) error {
	return d.object(addressFields, func(field string) error {
		switch field {
		case "id":
			return d.readID(&a.ID)
		case "street":
			return d.readText(&a.Street)
		case "nr":
			return d.readText(&a.Nr)
		case "postal_code":
			return d.readText(&a.PostalCode)
		case "google_map_link":
			return d.readText(&a.GoogleMapLink)
		case "created_at":
			return d.readTimestamp(&a.CreatedAt)
		case "updated_at":
			return d.readTimestamp(&a.UpdatedAt)
		case "city":
			return related(d, &a.City, (*City).decode)
		default:
			return related(d, &a.Country, (*Country).decode)
		}
	})
}

func (a *Address) appendTo(dst []byte) []byte {
	dst = appendInt(dst, `{"id":`, a.ID)
	dst = appendText(dst, `,"street":`, a.Street)
	dst = appendText(dst, `,"nr":`, a.Nr)
	dst = appendText(dst, `,"postal_code":`, a.PostalCode)
	dst = appendText(dst, `,"google_map_link":`, a.GoogleMapLink)
	dst = appendTimestamp(dst, `,"created_at":`, a.CreatedAt)
	dst = appendTimestamp(dst, `,"updated_at":`, a.UpdatedAt)
	dst = appendObject(dst, `,"city":`, a.City, (*City).appendTo)
	dst = appendObject(dst, `,"country":`, a.Country, (*Country).appendTo)
	return append(dst, '}')
}

func (c *City) decode(d *decoder) error {
	return d.object(cityFields, func(field string) error {
		switch field {
		case "id":
			return d.readID(&c.ID)
		case "typeof":
			return d.readText(&c.Typeof)
		case "name":
			return d.readText(&c.Name)
		case "zip":
			return d.readText(&c.Zip)
		case "description":
			return d.readText(&c.Description)
		case "order_num":
			return d.readNullable(&c.OrderNum)
		case "created_at":
			return d.readTimestamp(&c.CreatedAt)
		case "updated_at":
			return d.readTimestamp(&c.UpdatedAt)
		case "country":
			return c.decodeCountry(d)
		default:
			return d.readAsIs(&c.Parent)
		}
	})
}

// decodeCountry reads the id of a country, or the id out of a whole country,
// which is what a CMS sends that has its relations expanded.
func (c *City) decodeCountry(d *decoder) error {
	if d.absent || d.json.PeekKind() != '{' {
		return d.readInteger(&c.Country)
	}
	d.note(KindRelated)
	id := new(int64)
	err := d.object(countryFields, func(field string) error {
		switch {
		case field == "id":
			return d.readID(id)
		case d.absent:
			return nil // only the id is wanted
		default:
			return d.skip()
		}
	})
	c.Country = id
	return err
}

func (c *City) appendTo(dst []byte) []byte {
	dst = appendInt(dst, `{"id":`, c.ID)
	dst = appendText(dst, `,"typeof":`, c.Typeof)
	dst = appendText(dst, `,"name":`, c.Name)
	dst = appendText(dst, `,"zip":`, c.Zip)
	dst = appendText(dst, `,"description":`, c.Description)
	dst = appendIntOrNull(dst, `,"order_num":`, c.OrderNum)
	dst = appendTimestamp(dst, `,"created_at":`, c.CreatedAt)
	dst = appendTimestamp(dst, `,"updated_at":`, c.UpdatedAt)
	dst = appendIntOrNull(dst, `,"country":`, c.Country)
	dst = appendAsIs(dst, `,"parent":`, c.Parent)
	return append(dst, '}')
}

func (c *Country) decode(d *decoder) error {
	return d.object(countryFields, func(field string) error {
		switch field {
		case "id":
			return d.readID(&c.ID)
		case "name":
			return d.readText(&c.Name)
		case "created_at":
			return d.readTimestamp(&c.CreatedAt)
		default:
			return d.readTimestamp(&c.UpdatedAt)
		}
	})
}

func (c *Country) appendTo(dst []byte) []byte {
	dst = appendInt(dst, `{"id":`, c.ID)
	dst = appendText(dst, `,"name":`, c.Name)
	dst = appendTimestamp(dst, `,"created_at":`, c.CreatedAt)
	dst = appendTimestamp(dst, `,"updated_at":`, c.UpdatedAt)
	return append(dst, '}')
}
