package shape

import "encoding/json"

// RuleSet is an element of the array served at /cms/rules/ (section 2.9):
// rules for background images and prompts. What the interface shows no type
// for is kept as it came, compact.
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

// PageRule is an element of a RuleSet's page_rules (section 2.10), served at
// /cms/rules/. Its integers are nil where the CMS sent none.
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

// Page is the page of a PageRule (section 2.11), served at /cms/rules/.
type Page struct {
	ID        int64     `json:"id"`
	Title     string    `json:"title"`
	URL       string    `json:"url"` // a route pattern: /nl/kunstwerk/:id/:title
	CreatedAt Timestamp `json:"created_at"`
	UpdatedAt Timestamp `json:"updated_at"`
}

var (
	ruleSetFields = []string{
		"id", "background_image", "page_rules", "exlude_pages", "title",
		"page_depth", "page_view_count", "days_delay", "time", "visible",
		"created_at", "updated_at",
	}
	pageRuleFields = []string{
		"id", "background_image", "title", "page", "name",
		"page_view_count", "days_delay", "time", "created_at", "updated_at",
	}
	pageFields = []string{"id", "title", "url", "created_at", "updated_at"}
)

func (r *RuleSet) decode(d *decoder) error {
	return d.object(ruleSetFields, func(field string) error {
		switch field {
		case "id":
			return d.readID(&r.ID)
		case "background_image":
			return d.readText(&r.BackgroundImage)
		case "page_rules":
			return list(d, &r.PageRules, (*PageRule).decode)
		case "exlude_pages":
			return d.readListAsIs(&r.ExludePages)
		case "title":
			return d.readText(&r.Title)
		case "page_depth":
			return d.readAsIs(&r.PageDepth)
		case "page_view_count":
			return d.readAsIs(&r.PageViewCount)
		case "days_delay":
			return d.readAsIs(&r.DaysDelay)
		case "time":
			return d.readAsIs(&r.Time)
		case "visible":
			return d.readBool(&r.Visible)
		case "created_at":
			return d.readTimestamp(&r.CreatedAt)
		default:
			return d.readTimestamp(&r.UpdatedAt)
		}
	})
}

func (r *RuleSet) appendTo(dst []byte) []byte {
	dst = appendInt(dst, `{"id":`, r.ID)
	dst = appendText(dst, `,"background_image":`, r.BackgroundImage)
	dst = append(dst, `,"page_rules":`...)
	dst = appendArray(dst, r.PageRules, (*PageRule).appendTo)
	dst = appendAsIs(dst, `,"exlude_pages":`, r.ExludePages)
	dst = appendText(dst, `,"title":`, r.Title)
	dst = appendAsIs(dst, `,"page_depth":`, r.PageDepth)
	dst = appendAsIs(dst, `,"page_view_count":`, r.PageViewCount)
	dst = appendAsIs(dst, `,"days_delay":`, r.DaysDelay)
	dst = appendAsIs(dst, `,"time":`, r.Time)
	dst = appendBool(dst, `,"visible":`, r.Visible)
	dst = appendTimestamp(dst, `,"created_at":`, r.CreatedAt)
	dst = appendTimestamp(dst, `,"updated_at":`, r.UpdatedAt)
	return append(dst, '}')
}

func (r *PageRule) decode(d *decoder) error {
	return d.object(pageRuleFields, func(field string) error {
		switch field {
		case "id":
			return d.readID(&r.ID)
		case "background_image":
			return d.readText(&r.BackgroundImage)
		case "title":
			return d.readText(&r.Title)
		case "page":
			return related(d, &r.Page, (*Page).decode)
		case "name":
			return d.readText(&r.Name)
		case "page_view_count":
			return d.readInteger(&r.PageViewCount)
		case "days_delay":
			return d.readInteger(&r.DaysDelay)
		case "time":
			return d.readInteger(&r.Time)
		case "created_at":
			return d.readTimestamp(&r.CreatedAt)
		default:
			return d.readTimestamp(&r.UpdatedAt)
		}
	})
}

func (r *PageRule) appendTo(dst []byte) []byte {
	dst = appendInt(dst, `{"id":`, r.ID)
	dst = appendText(dst, `,"background_image":`, r.BackgroundImage)
	dst = appendText(dst, `,"title":`, r.Title)
	dst = appendObject(dst, `,"page":`, r.Page, (*Page).appendTo)
	dst = appendText(dst, `,"name":`, r.Name)
	dst = appendIntOrNull(dst, `,"page_view_count":`, r.PageViewCount)
	dst = appendIntOrNull(dst, `,"days_delay":`, r.DaysDelay)
	dst = appendIntOrNull(dst, `,"time":`, r.Time)
	dst = appendTimestamp(dst, `,"created_at":`, r.CreatedAt)
	dst = appendTimestamp(dst, `,"updated_at":`, r.UpdatedAt)
	return append(dst, '}')
}

func (p *Page) decode(d *decoder) error {
	return d.object(pageFields, func(field string) error {
		switch field {
		case "id":
			return d.readID(&p.ID)
		case "title":
			return d.readText(&p.Title)
		case "url":
			return d.readText(&p.URL)
		case "created_at":
			return d.readTimestamp(&p.CreatedAt)
		default:
			return d.readTimestamp(&p.UpdatedAt)
		}
	})
}

func (p *Page) appendTo(dst []byte) []byte {
	dst = appendInt(dst, `{"id":`, p.ID)
	dst = appendText(dst, `,"title":`, p.Title)
	dst = appendText(dst, `,"url":`, p.URL)
	dst = appendTimestamp(dst, `,"created_at":`, p.CreatedAt)
	dst = appendTimestamp(dst, `,"updated_at":`, p.UpdatedAt)
	return append(dst, '}')
}
