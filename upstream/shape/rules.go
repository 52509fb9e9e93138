package shape

import "encoding/json"

// RuleSet is an element of the array served at /cms/rules/ (docs/interface.md, section 2.9): rules
// for background images and prompts. Fields of no documented type are passed through as sent,
// compact.
type RuleSet struct {
	ID              int64           `json:"id"`
	BackgroundImage string          `json:"background_image"` // a URL
	PageRules       []PageRule      `json:"page_rules"`
	ExludePages     json.RawMessage `json:"exlude_pages"` // spelled so; a list of no known shape
	Title           string          `json:"title"`
	PageDepth       json.RawMessage `json:"page_depth"`
	PageViewCount   json.RawMessage `json:"page_view_count"`
	DaysDelay       json.RawMessage `json:"days_delay"`
	Time            json.RawMessage `json:"time"`
	Visible         bool            `json:"visible"`
	CreatedAt       Timestamp       `json:"created_at"`
	UpdatedAt       Timestamp       `json:"updated_at"`
}

var ruleSets = tableOf("RuleSet",
	row("id", func(r *RuleSet) *int64 { return &r.ID }, id),
	row("background_image", func(r *RuleSet) *string { return &r.BackgroundImage }, text),
	row("page_rules", func(r *RuleSet) *[]PageRule { return &r.PageRules }, relatedList(pageRules)),
	row("exlude_pages", func(r *RuleSet) *json.RawMessage { return &r.ExludePages }, listAsIs),
	row("title", func(r *RuleSet) *string { return &r.Title }, text),
	row("page_depth", func(r *RuleSet) *json.RawMessage { return &r.PageDepth }, asIs),
	row("page_view_count", func(r *RuleSet) *json.RawMessage { return &r.PageViewCount }, asIs),
	row("days_delay", func(r *RuleSet) *json.RawMessage { return &r.DaysDelay }, asIs),
	row("time", func(r *RuleSet) *json.RawMessage { return &r.Time }, asIs),
	row("visible", func(r *RuleSet) *bool { return &r.Visible }, boolean),
	row("created_at", func(r *RuleSet) *Timestamp { return &r.CreatedAt }, timestamp),
	row("updated_at", func(r *RuleSet) *Timestamp { return &r.UpdatedAt }, timestamp),
)

// PageRule is an element of a RuleSet's page_rules (docs/interface.md, section 2.10), served at
// /cms/rules/. Its integers are nil if the CMS sent none.
type PageRule struct {
	ID              int64     `json:"id"`
	BackgroundImage string    `json:"background_image"` // a URL
	Title           string    `json:"title"`
	Page            *Page     `json:"page"`
	Name            string    `json:"name"`
	PageViewCount   *int64    `json:"page_view_count"`
	DaysDelay       *int64    `json:"days_delay"` // in a unit that is not documented
	Time            *int64    `json:"time"`       // in a unit that is not documented
	CreatedAt       Timestamp `json:"created_at"`
	UpdatedAt       Timestamp `json:"updated_at"`
}

var pageRules = tableOf("PageRule",
	row("id", func(p *PageRule) *int64 { return &p.ID }, id),
	row("background_image", func(p *PageRule) *string { return &p.BackgroundImage }, text),
	row("title", func(p *PageRule) *string { return &p.Title }, text),
	row("page", func(p *PageRule) **Page { return &p.Page }, related(pages)),
	row("name", func(p *PageRule) *string { return &p.Name }, text),
	row("page_view_count", func(p *PageRule) **int64 { return &p.PageViewCount }, integer),
	row("days_delay", func(p *PageRule) **int64 { return &p.DaysDelay }, integer),
	row("time", func(p *PageRule) **int64 { return &p.Time }, integer),
	row("created_at", func(p *PageRule) *Timestamp { return &p.CreatedAt }, timestamp),
	row("updated_at", func(p *PageRule) *Timestamp { return &p.UpdatedAt }, timestamp),
)

// Page is the page of a PageRule (docs/interface.md, section 2.11), served at /cms/rules/.
type Page struct {
	ID        int64     `json:"id"`
	Title     string    `json:"title"`
	URL       string    `json:"url"` // a route pattern: /nl/kunstwerk/:id/:title
	CreatedAt Timestamp `json:"created_at"`
	UpdatedAt Timestamp `json:"updated_at"`
}

var pages = tableOf("Page",
	row("id", func(p *Page) *int64 { return &p.ID }, id),
	row("title", func(p *Page) *string { return &p.Title }, text),
	row("url", func(p *Page) *string { return &p.URL }, text),
	row("created_at", func(p *Page) *Timestamp { return &p.CreatedAt }, timestamp),
	row("updated_at", func(p *Page) *Timestamp { return &p.UpdatedAt }, timestamp),
)
