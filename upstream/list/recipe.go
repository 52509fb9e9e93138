// Package list makes the input of one document from the responses of the CMS.
//
// One [Recipe.Read] goes like this:
//
//  1. the parts of the resource are walked concurrently, each page by page to its end (walk.go);
//  2. a list that changed while it was read is walked again, and refused if it keeps changing;
//  3. a response that is a plain list, or the one object, is passed on unchanged;
//  4. the items of any other are decoded one by one, taken out of the CMS's envelope, mapped by the
//     operator's programs, and put together (assemble.go): whole, or not at all.
//
// [Resource.Parse] reads the parts from a configuration file, and [New] checks and compiles them,
// once.
package list

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"vitrine/upstream/exchange"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// The defaults of Paging.
const (
	defaultSize     = 100
	defaultMaxPages = 1000
	defaultMaxItems = 100_000
	defaultWalks    = 3
	defaultDetails  = 500
)

// Recipe is how one resource is made, checked and compiled.
type Recipe struct {
	resource shape.Resource
	preset   *mapping.Preset
	parts    []*part
	program  *mapping.Program // of the whole; nil for none
	maxBytes int64
	pause    time.Duration // between two walks
	lines    map[string]int
	defs     string // that programs begin with
	empty    bool
}

// part is one part of a recipe.
type part struct {
	Part
	root string // its path in the document: catalogue.artist, banners
	list bool
	all  string // see mapping.Walk
	past []int
	// nil for none
	program, items, id, total, next, detail *mapping.Program

	origin *exchange.Origin // nil for the CMS
}

// New makes a recipe. Its error is an *[Error].
func New(r shape.Resource, o Resource, shared Shared, preset *mapping.Preset, maxBytes int64) (*Recipe, error) {
	m := &Recipe{resource: r, preset: preset, maxBytes: maxBytes, pause: 50 * time.Millisecond, lines: o.lines, defs: shared.defs(), empty: o.Empty}
	if err := shared.check(); err != nil || o.Empty {
		return m, err
	}
	parts := o.Parts
	switch {
	case o.Path != "" && len(parts) > 0:
		return nil, m.wrong("path", "want either this or parts, got both")
	case o.Path != "":
		parts = []Part{{Path: o.Path}}
	case len(parts) == 0:
		for _, p := range preset.Parts(r) {
			parts = append(parts, Part{Name: p.Name})
		}
	}
	if len(parts) == 0 {
		return nil, m.wrong("parts", "want at least one, since the preset %s has no path for it", preset.Name)
	}
	seen := make(map[string]bool)
	for i, p := range parts {
		key := fmt.Sprintf("parts[%d].", i)
		if o.Path != "" {
			key = ""
		}
		if seen[p.Name] {
			return nil, m.wrong(key+"name", "want distinct names, got %q again", p.Name)
		}
		seen[p.Name] = true
		one, err := m.part(p, key, len(parts) > 1, o.Map != "")
		if err != nil {
			return nil, err
		}
		m.parts = append(m.parts, one)
	}
	return m, m.compile(&m.program, "map", o.Map)
}

// part checks and compiles one part.
func (m *Recipe) part(o Part, key string, several, hasMap bool) (*part, error) {
	p := &part{Part: o, root: string(m.resource), list: true, past: m.preset.Walk.Past}
	p.Headers = maps.Clone(o.Headers)
	switch {
	case o.Name != "":
		p.root += "." + o.Name
		if err := m.checkName(o.Name, hasMap); err != nil {
			return nil, m.wrong(key+"name", "%w", err)
		}
	case several:
		return nil, m.wrong(key+"name", "want one for each of several parts, got none")
	case m.resource == shape.Catalogue:
		p.list = false
	}
	for _, known := range m.preset.Parts(m.resource) {
		if known.Name != o.Name {
			continue
		}
		p.Path = cmp.Or(p.Path, known.Path)
		if p.Query == nil {
			p.Query = known.Query
		}
	}
	if err := m.reach(p, key); err != nil {
		return nil, err
	}
	if p.Path == "" {
		return nil, m.wrong(key+"path", "want one, since the preset %s has none for this", m.preset.Name)
	}
	if err := exchange.CheckPath(p.Path); err != nil {
		return nil, m.wrong(key+"path", "%w", err)
	}
	if name, err := exchange.CheckHeaders(p.Headers); err != nil {
		return nil, m.wrong(key+"headers."+name, "%w", err)
	}
	if p.IDs != "" && p.IDs != "document" && p.IDs != "number" {
		return nil, m.wrong(key+"ids", `want "document" or "number", got %q`, p.IDs)
	}
	if name, err := p.page(m.preset.Walk); err != nil {
		return nil, m.wrong(key+"paging."+name, "%w", err)
	}
	return p, errors.Join(
		m.compile(&p.program, key+"map", o.Map),
		m.compile(&p.items, key+"items", o.Items),
		m.compile(&p.id, key+"id", o.ID),
		m.compile(&p.total, key+"paging.total", strings.TrimPrefix(o.Paging.Total, "-")),
		m.compile(&p.next, key+"paging.next", o.Paging.Next),
		m.checkDetail(p, key+"detail."),
	)
}

// checkName allows the members of the document, or of the input of the resource's own program.
func (m *Recipe) checkName(name string, hasMap bool) error {
	switch {
	case hasMap && memberName.MatchString(name):
		return nil
	case hasMap:
		return fmt.Errorf("want letters, digits and _, got %q", name)
	case m.resource != shape.Catalogue:
		return fmt.Errorf("want none, since the %s are one list; only a map of the resource could use it; got %q", m.resource, name)
	case !slices.Contains([]string{"artist", "artwork", "gallery"}, name):
		return fmt.Errorf("want artist, artwork or gallery, got %q", name)
	}
	return nil
}

var memberName = regexp.MustCompile(`^\w{1,64}$`)

// page fills the zero fields of paging with the preset's. On an error it also returns the key.
func (p *part) page(preset mapping.Walk) (key string, err error) {
	g := &p.Paging
	own := g.Style == "" || g.Style == preset.Style
	g.Style = cmp.Or(g.Style, preset.Style)
	styles := []string{PagingNone, PagingPage, PagingOffset, PagingLink, PagingCursor, PagingHeader}
	if own {
		g.Param = cmp.Or(g.Param, preset.Param)
		g.SizeParam = cmp.Or(g.SizeParam, preset.SizeParam)
		if g.Size == 0 {
			p.all = preset.All
		}
		g.Size = cmp.Or(g.Size, preset.Size)
	}
	switch {
	case !slices.Contains(styles, g.Style):
		return "style", fmt.Errorf("want one of %s, got %q", strings.Join(styles, ", "), g.Style)
	case !p.list && g.Style != PagingNone && !own:
		return "style", fmt.Errorf("want none, since the part is an object, got %q", g.Style)
	case (g.Style == PagingPage || g.Style == PagingOffset || g.Style == PagingCursor) && g.Param == "":
		return "param", fmt.Errorf("want the name of the parameter for the %s, got none", g.Style)
	case g.Style == PagingCursor && g.Next == "":
		return "next", errors.New("want a program that finds the cursor, got none")
	case g.Style == PagingLink && g.Next == "" && !own:
		return "next", errors.New("want a program that finds the link, got none")
	}
	if g.SizeParam == "-" {
		g.SizeParam = ""
	}
	g.Size = cmp.Or(g.Size, defaultSize)
	g.MaxPages = cmp.Or(g.MaxPages, defaultMaxPages)
	g.MaxItems = cmp.Or(g.MaxItems, defaultMaxItems)
	g.Walks = cmp.Or(g.Walks, defaultWalks)
	if p.list {
		p.Query = withDefaultQuery(p.Query, p.Path, preset.Query)
	} else {
		g.Style = PagingNone
	}
	return "", nil
}

// withDefaultQuery adds to query the parameters that neither it nor path has. sort also counts as
// sort[0].
func withDefaultQuery(query url.Values, path string, preset url.Values) url.Values {
	all := maps.Clone(query)
	if all == nil {
		all = url.Values{}
	}
	_, inPath, _ := strings.Cut(path, "?")
	given, err := url.ParseQuery(inPath)
	if err != nil {
		given = nil // CheckPath has accepted it: the CMS interprets it
	}
	stem := func(name string) string { before, _, _ := strings.Cut(name, "["); return before }
	taken := make(map[string]bool)
	for _, values := range []url.Values{query, given} {
		for name := range values {
			taken[stem(name)] = true
		}
	}
	for name, values := range preset {
		if !taken[stem(name)] {
			all[name] = values
		}
	}
	return all
}

// Describe returns everything that decides what is made from the same content, for a fingerprint.
// Of headers it has the names only, of credentials nothing.
func (m *Recipe) Describe() string {
	var parts []Part
	for _, p := range m.parts {
		one, g := p.Part, &p.Paging
		one.Path = strings.TrimLeft(p.Path, "/")
		one.Headers = maps.Clone(p.Headers)
		for name := range one.Headers {
			one.Headers[name] = ""
		}
		one.Authorization, one.Login, one.AcceptTypes = "", nil, nil
		one.Paging = Paging{Style: g.Style, Param: g.Param, SizeParam: g.SizeParam, Size: g.Size, First: g.First, Total: g.Total, Next: g.Next, TotalHeader: g.TotalHeader}
		parts = append(parts, one)
	}
	text, _ := json.Marshal(parts) // bodies were tried when they were read
	return fmt.Sprintf("%s %s %s %q %t", m.resource, m.preset.Name, text, m.program.Source(), m.empty)
}

// untouched reports whether a response is the document as it is: a plain list, or the one object.
func (m *Recipe) untouched(p *part, body []byte) bool {
	body = bytes.TrimLeft(body, "\xef\xbb\xbf \t\r\n")
	return m.preset.Name == "drf" && m.program == nil && p.program == nil && p.items == nil && p.Name == "" && p.Detail == nil &&
		(!p.list || len(body) == 0 || body[0] != '{')
}

// posts reports whether the part is asked for with a POST, which has no validators.
func (p *part) posts() bool { return p.Body.Value != nil || p.Body.Text != "" }
