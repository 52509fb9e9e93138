package shape

import "slices"

// Banner is an element of the array served at /gvapp/singlebanner (section
// 2.12): a promotion in three languages.
type Banner struct {
	ID             int64     `json:"id"`
	TitleEN        string    `json:"title_en"`
	TitleNL        string    `json:"title_nl"`
	TitleFR        string    `json:"title_fr"`
	ButtonTextEN   string    `json:"button_text_en"`
	ButtonTextNL   string    `json:"button_text_nl"`
	ButtonTextFR   string    `json:"button_text_fr"`
	RedirectLinkEN string    `json:"redirect_link_en"` // site-relative, /en/…
	RedirectLinkNL string    `json:"redirect_link_nl"`
	RedirectLinkFR string    `json:"redirect_link_fr"`
	LanguageEN     bool      `json:"language_en"`
	LanguageNL     bool      `json:"language_nl"`
	LanguageFR     bool      `json:"language_fr"`
	CreatedAt      Timestamp `json:"created_at"`
	UpdatedAt      Timestamp `json:"updated_at"`
}

var bannerFields = []string{
	"id",
	"title_en", "title_nl", "title_fr",
	"button_text_en", "button_text_nl", "button_text_fr",
	"redirect_link_en", "redirect_link_nl", "redirect_link_fr",
	"language_en", "language_nl", "language_fr",
	"created_at", "updated_at",
}

// BannerFields returns the names of a banner's fields in the documented
// order. Any of them can be ordered by.
func BannerFields() []string { return slices.Clone(bannerFields) }

// DecodeBanners reads the banners document, with the repairs and refusals of
// [Normalize]. The banners share the memory of one copy of body.
func DecodeBanners(body []byte) ([]Banner, error) {
	var banners []Banner
	d := newDecoder(Banners, body)
	if err := d.document(func() error { return array(d, &banners, (*Banner).decode) }); err != nil {
		return nil, err
	}
	return banners, nil
}

// AppendBanners appends the banners document to dst: compact, every field.
func AppendBanners(dst []byte, b []Banner) []byte {
	return appendArray(dst, b, (*Banner).appendTo)
}

func (b *Banner) decode(d *decoder) error {
	return d.object(bannerFields, func(field string) error {
		switch field {
		case "id":
			return d.readID(&b.ID)
		case "title_en":
			return d.readText(&b.TitleEN)
		case "title_nl":
			return d.readText(&b.TitleNL)
		case "title_fr":
			return d.readText(&b.TitleFR)
		case "button_text_en":
			return d.readText(&b.ButtonTextEN)
		case "button_text_nl":
			return d.readText(&b.ButtonTextNL)
		case "button_text_fr":
			return d.readText(&b.ButtonTextFR)
		case "redirect_link_en":
			return d.readText(&b.RedirectLinkEN)
		case "redirect_link_nl":
			return d.readText(&b.RedirectLinkNL)
		case "redirect_link_fr":
			return d.readText(&b.RedirectLinkFR)
		case "language_en":
			return d.readBool(&b.LanguageEN)
		case "language_nl":
			return d.readBool(&b.LanguageNL)
		case "language_fr":
			return d.readBool(&b.LanguageFR)
		case "created_at":
			return d.readTimestamp(&b.CreatedAt)
		default:
			return d.readTimestamp(&b.UpdatedAt)
		}
	})
}

func (b *Banner) appendTo(dst []byte) []byte {
	dst = appendInt(dst, `{"id":`, b.ID)
	dst = appendText(dst, `,"title_en":`, b.TitleEN)
	dst = appendText(dst, `,"title_nl":`, b.TitleNL)
	dst = appendText(dst, `,"title_fr":`, b.TitleFR)
	dst = appendText(dst, `,"button_text_en":`, b.ButtonTextEN)
	dst = appendText(dst, `,"button_text_nl":`, b.ButtonTextNL)
	dst = appendText(dst, `,"button_text_fr":`, b.ButtonTextFR)
	dst = appendText(dst, `,"redirect_link_en":`, b.RedirectLinkEN)
	dst = appendText(dst, `,"redirect_link_nl":`, b.RedirectLinkNL)
	dst = appendText(dst, `,"redirect_link_fr":`, b.RedirectLinkFR)
	dst = appendBool(dst, `,"language_en":`, b.LanguageEN)
	dst = appendBool(dst, `,"language_nl":`, b.LanguageNL)
	dst = appendBool(dst, `,"language_fr":`, b.LanguageFR)
	dst = appendTimestamp(dst, `,"created_at":`, b.CreatedAt)
	dst = appendTimestamp(dst, `,"updated_at":`, b.UpdatedAt)
	return append(dst, '}')
}
