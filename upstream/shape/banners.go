package shape

import "slices"

// Banner is an element of the array served at /gvapp/singlebanner (docs/interface.md, section
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

var banners = tableOf("Banner",
	row("id", func(b *Banner) *int64 { return &b.ID }, id),
	row("title_en", func(b *Banner) *string { return &b.TitleEN }, text),
	row("title_nl", func(b *Banner) *string { return &b.TitleNL }, text),
	row("title_fr", func(b *Banner) *string { return &b.TitleFR }, text),
	row("button_text_en", func(b *Banner) *string { return &b.ButtonTextEN }, text),
	row("button_text_nl", func(b *Banner) *string { return &b.ButtonTextNL }, text),
	row("button_text_fr", func(b *Banner) *string { return &b.ButtonTextFR }, text),
	row("redirect_link_en", func(b *Banner) *string { return &b.RedirectLinkEN }, text),
	row("redirect_link_nl", func(b *Banner) *string { return &b.RedirectLinkNL }, text),
	row("redirect_link_fr", func(b *Banner) *string { return &b.RedirectLinkFR }, text),
	row("language_en", func(b *Banner) *bool { return &b.LanguageEN }, boolean),
	row("language_nl", func(b *Banner) *bool { return &b.LanguageNL }, boolean),
	row("language_fr", func(b *Banner) *bool { return &b.LanguageFR }, boolean),
	row("created_at", func(b *Banner) *Timestamp { return &b.CreatedAt }, timestamp),
	row("updated_at", func(b *Banner) *Timestamp { return &b.UpdatedAt }, timestamp),
)

// DecodeBanners reads the banners document, with the repairs and refusals of [Normalize]. The
// banners share the memory of one copy of body.
func DecodeBanners(body []byte) ([]Banner, error) {
	var all []Banner
	d := newDecoder(Banners, body)
	if err := d.document(func() error { return array(d, &all, banners.read) }); err != nil {
		return nil, err
	}
	return all, nil
}

// AppendBanners appends the banners document to dst: compact, every field.
func AppendBanners(dst []byte, all []Banner) []byte { return banners.appendList(dst, all) }

// BannerFieldCount is the number of fields of a banner.
const BannerFieldCount = 15

// BannerFields returns the names of a banner's fields in the documented order. Any of them can be
// ordered by.
func BannerFields() []string { return slices.Clone(banners.names) }

// Compare orders b and other by the field that is at index i of [BannerFields]: text and timestamps
// by code point, false before true, numbers by value.
func (b *Banner) Compare(other *Banner, i int) int { return banners.fields[i].compare(b, other) }

// AppendBanner appends one banner to dst as it stands in the document.
func AppendBanner(dst []byte, b *Banner) []byte { return banners.append(dst, b) }
