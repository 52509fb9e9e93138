package shape

import "encoding/json"

// The documented types as Go structs, against which what is written is held with encoding/json.

type Summary struct {
	Artist  []Artist  `json:"artist"`
	Artwork []Artwork `json:"artwork"`
	Gallery []Gallery `json:"gallery"`
}

type Artist struct {
	ID             int64       `json:"id"`
	Name           string      `json:"name"`
	GalleryArtists *GalleryRef `json:"gallery_artists"`
	Visible        bool        `json:"visible"`
	Tag            []string    `json:"tag"`
}

type GalleryRef struct {
	ID           int64    `json:"id"`
	Title        string   `json:"title"`
	ArtKunstkoop bool     `json:"art_kunstkoop"`
	KunstAanZet  bool     `json:"kunst_aan_zet"`
	Tag          []string `json:"tag"`
}

type Artwork struct {
	ID          int64    `json:"id"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Tag         []string `json:"tag"`
}

type Gallery struct {
	ID           int64     `json:"id"`
	Title        string    `json:"title"`
	About        string    `json:"about"`
	Address      []Address `json:"address"`
	ArtKunstkoop bool      `json:"art_kunstkoop"`
	KunstAanZet  bool      `json:"kunst_aan_zet"`
	Tag          []string  `json:"tag"`
}

type Address struct {
	ID            int64    `json:"id"`
	Street        string   `json:"street"`
	Nr            string   `json:"nr"`
	PostalCode    string   `json:"postal_code"`
	GoogleMapLink string   `json:"google_map_link"`
	CreatedAt     string   `json:"created_at"`
	UpdatedAt     string   `json:"updated_at"`
	City          *City    `json:"city"`
	Country       *Country `json:"country"`
}

type City struct {
	ID          int64           `json:"id"`
	Typeof      string          `json:"typeof"`
	Name        string          `json:"name"`
	Zip         string          `json:"zip"`
	Description string          `json:"description"`
	OrderNum    *int64          `json:"order_num"`
	CreatedAt   string          `json:"created_at"`
	UpdatedAt   string          `json:"updated_at"`
	Country     *int64          `json:"country"`
	Parent      json.RawMessage `json:"parent"`
}

type Country struct {
	ID        int64  `json:"id"`
	Name      string `json:"name"`
	CreatedAt string `json:"created_at"`
	UpdatedAt string `json:"updated_at"`
}

type RuleSet struct {
	ID              int64           `json:"id"`
	BackgroundImage string          `json:"background_image"`
	PageRules       []PageRule      `json:"page_rules"`
	ExludePages     json.RawMessage `json:"exlude_pages"`
	Title           string          `json:"title"`
	PageDepth       json.RawMessage `json:"page_depth"`
	PageViewCount   json.RawMessage `json:"page_view_count"`
	DaysDelay       json.RawMessage `json:"days_delay"`
	Time            json.RawMessage `json:"time"`
	Visible         bool            `json:"visible"`
	CreatedAt       string          `json:"created_at"`
	UpdatedAt       string          `json:"updated_at"`
}

type PageRule struct {
	ID              int64  `json:"id"`
	BackgroundImage string `json:"background_image"`
	Title           string `json:"title"`
	Page            *Page  `json:"page"`
	Name            string `json:"name"`
	PageViewCount   *int64 `json:"page_view_count"`
	DaysDelay       *int64 `json:"days_delay"`
	Time            *int64 `json:"time"`
	CreatedAt       string `json:"created_at"`
	UpdatedAt       string `json:"updated_at"`
}

type Page struct {
	ID        int64  `json:"id"`
	Title     string `json:"title"`
	URL       string `json:"url"`
	CreatedAt string `json:"created_at"`
	UpdatedAt string `json:"updated_at"`
}

type BannerObject struct {
	ID             int64  `json:"id"`
	TitleEN        string `json:"title_en"`
	TitleNL        string `json:"title_nl"`
	TitleFR        string `json:"title_fr"`
	ButtonTextEN   string `json:"button_text_en"`
	ButtonTextNL   string `json:"button_text_nl"`
	ButtonTextFR   string `json:"button_text_fr"`
	RedirectLinkEN string `json:"redirect_link_en"`
	RedirectLinkNL string `json:"redirect_link_nl"`
	RedirectLinkFR string `json:"redirect_link_fr"`
	LanguageEN     bool   `json:"language_en"`
	LanguageNL     bool   `json:"language_nl"`
	LanguageFR     bool   `json:"language_fr"`
	CreatedAt      string `json:"created_at"`
	UpdatedAt      string `json:"updated_at"`
}
