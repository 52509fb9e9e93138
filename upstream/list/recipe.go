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
// [New] checks and compiles what the configuration says of a resource, once.
package list

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vitrine/config/source"
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
)

// Recipe is how one resource is made, checked and compiled.
type Recipe struct {
	resource shape.Resource
	from     source.Resource
	shared   source.Shared
	parts    []*part
	program  *mapping.Program // of the whole; nil for none
	draft    *mapping.Program
	shaping  *mapping.Program // of each item, before the part's own
	ignore   *mapping.Ignored
	maxBytes int64
	defs     string // that programs begin with
	timely   bool   // a program depends on the time
	place    func(key string) string
}

// part is one part of a recipe.
type part struct {
	source.Part
	root    string // its path in the document: catalogue.artist, banners
	list    bool
	all     bool             // everything is asked for at first
	id      *mapping.Program // nil for none
	opening mapping.Opening  // of each response
	mapped  mapping.Items    // without the items themselves
}

// New makes a recipe. Place says where a key is written, for the errors of its program; nil says
// nothing. Its error is an *[Error] or a *[mapping.ProgramError].
func New(r shape.Resource, o source.Resource, shared source.Shared, maxBytes int64, place func(key string) string) (*Recipe, error) {
	m := &Recipe{
		resource: r, from: o, shared: shared, ignore: mapping.NewIgnored(shared.Ignore), maxBytes: maxBytes,
		defs: defs(shared), place: place,
	}
	err := errors.Join(check(shared), m.compile(&m.draft, "upstream.shared.draft", shared.Draft), m.compile(&m.shaping, "upstream.shared.map", shared.Map))
	if err != nil || o.Empty {
		return m, err
	}
	root := "upstream.resources." + string(r) + "."
	if len(o.Parts) == 0 {
		return nil, wrong(root+"parts", "want at least one, since the preset has none for it")
	}
	seen := make(map[string]bool)
	for i, p := range o.Parts {
		key := fmt.Sprintf("%sparts[%d].", root, i)
		if seen[p.Name] {
			return nil, wrong(key+"name", "want distinct names, got %q again", p.Name)
		}
		seen[p.Name] = true
		one, err := m.part(p, key, len(o.Parts) > 1, o.Map != "")
		if err != nil {
			return nil, err
		}
		m.parts = append(m.parts, one)
	}
	err = m.compile(&m.program, root+"map", o.Map)
	m.timely = mapping.Timely(m.defs) || mapping.Timely(o.Map) || mapping.Timely(shared.Map) || mapping.Timely(shared.Draft) ||
		slices.ContainsFunc(m.parts, func(p *part) bool { return mapping.Timely(p.Map) || mapping.Timely(p.Items) })
	return m, err
}

// part checks and compiles one part.
func (m *Recipe) part(o source.Part, key string, several, hasMap bool) (*part, error) {
	p := &part{Part: o, root: string(m.resource), list: true}
	switch {
	case o.Name != "":
		p.root += "." + o.Name
		if err := m.checkName(o.Name, hasMap); err != nil {
			return nil, wrong(key+"name", "%w", err)
		}
	case several:
		return nil, wrong(key+"name", "want one for each of several parts, got none")
	case len(m.resource.Lists()) > 0:
		p.list = false
	}
	if lists := m.resource.Lists(); o.MinItems > 0 && len(lists) > 0 && o.Name != "" && !slices.Contains(lists, o.Name) {
		return nil, wrong(key+"min_items", "want it on a part that is one of %s, or has no name, got the part %q", strings.Join(lists, ", "), o.Name)
	} else if o.MinItems > 0 && o.Name != "" && len(lists) == 0 {
		return nil, wrong(key+"min_items", "want it on a part without a name, got the part %q", o.Name)
	}
	if p.Path == "" {
		return nil, wrong(key+"path", "want one, since the preset has none for this")
	}
	if err := exchange.CheckPath(p.Path); err != nil {
		return nil, wrong(key+"path", "%w", err)
	}
	if name, err := exchange.CheckHeaders(p.Headers); err != nil {
		return nil, wrong(key+"headers."+name, "%w", err)
	}
	if name, err := p.page(m.shared.Paging); err != nil {
		return nil, wrong(key+"paging."+name, "%w", err)
	}
	p.Items, p.ID = cmp.Or(o.Items, m.shared.Items), cmp.Or(o.ID, m.shared.ID)
	p.opening = mapping.Opening{Root: p.root, List: p.list, Paged: p.Paging.Style != source.PagingNone, MaxItems: p.Paging.MaxItems, MaxBytes: int(m.maxBytes)}
	p.mapped = mapping.Items{Name: p.Name, Root: p.root, List: p.list, Draft: m.draft, MaxItems: p.Paging.MaxItems}
	at := func(own, name string) string {
		if own == "" {
			return "upstream.shared." + name
		}
		return key + name
	}
	var own *mapping.Program
	err := errors.Join(
		m.compile(&own, key+"map", o.Map),
		m.compile(&p.opening.Items, at(o.Items, "items"), p.Items),
		m.compile(&p.id, at(o.ID, "id"), p.ID),
		m.compile(&p.opening.Total, at(o.Paging.Total, "paging.total"), strings.TrimPrefix(p.Paging.Total, "-")),
		m.compile(&p.opening.Next, at(o.Paging.Next, "paging.next"), p.Paging.Next),
	)
	for _, program := range []*mapping.Program{m.shaping, own} {
		if program != nil {
			p.mapped.Maps = append(p.mapped.Maps, program)
		}
	}
	return p, err
}

// checkName allows the members of the document, or of the input of the resource's own program.
func (m *Recipe) checkName(name string, hasMap bool) error {
	switch {
	case hasMap && memberName.MatchString(name):
		return nil
	case hasMap:
		return fmt.Errorf("want letters, digits and _, got %q", name)
	case len(m.resource.Lists()) == 0:
		return fmt.Errorf("want none, since the %s are one list; only a map of the resource could use it; got %q", m.resource, name)
	case !slices.Contains(m.resource.Lists(), name):
		return fmt.Errorf("want one of %s, got %q", strings.Join(m.resource.Lists(), ", "), name)
	}
	return nil
}

var memberName = regexp.MustCompile(`^\w{1,64}$`)

// page fills the zero fields of paging with the shared ones: those of a style only if the part has
// no other. On an error it also returns the key.
func (p *part) page(shared source.Paging) (key string, err error) {
	g := &p.Paging
	own := g.Style == "" || g.Style == shared.Style
	g.Style = cmp.Or(g.Style, shared.Style, source.PagingNone)
	if own {
		g.Param, g.SizeParam, g.Size = cmp.Or(g.Param, shared.Param), cmp.Or(g.SizeParam, shared.SizeParam), cmp.Or(g.Size, shared.Size)
		g.First, g.PastEnd = cmp.Or(g.First, shared.First), cmp.Or(g.PastEnd, shared.PastEnd)
	}
	if own || g.Style == source.PagingNone {
		g.Next = cmp.Or(g.Next, shared.Next)
	}
	g.Total, g.TotalHeader = cmp.Or(g.Total, shared.Total), cmp.Or(g.TotalHeader, shared.TotalHeader)
	g.MaxPages, g.MaxItems = cmp.Or(g.MaxPages, shared.MaxPages, defaultMaxPages), cmp.Or(g.MaxItems, shared.MaxItems, defaultMaxItems)
	g.Walks = cmp.Or(g.Walks, shared.Walks, defaultWalks)
	if g.Hosts == nil {
		g.Hosts = shared.Hosts
	}
	if g.Query == nil {
		g.Query = shared.Query
	}
	style, known := styles[g.Style]
	switch {
	case !known:
		return "style", fmt.Errorf("want one of %s, got %q", strings.Join(slices.Sorted(maps.Keys(styles)), ", "), g.Style)
	case !p.list && g.Style != source.PagingNone && !own:
		return "style", fmt.Errorf("want none, since the part is an object, got %q", g.Style)
	case style.param && g.Param == "":
		return "param", fmt.Errorf("want the name of the parameter for the %s, got none", g.Style)
	case style.finds != "" && g.Next == "":
		return "next", fmt.Errorf("want a program that finds the %s, got none", style.finds)
	}
	if g.SizeParam == "-" {
		g.SizeParam = ""
	}
	if p.all = g.Size < 0; p.all {
		g.Size = 0
	}
	g.Size = cmp.Or(g.Size, defaultSize)
	if p.list {
		p.Query = withDefaultQuery(p.Query, p.Path, g.Query)
	} else {
		g.Style = source.PagingNone
	}
	return "", nil
}

// withDefaultQuery adds to query the parameters that neither it nor path has. sort also counts as
// sort[0].
func withDefaultQuery(query url.Values, path string, paging url.Values) url.Values {
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
	for name, values := range paging {
		if !taken[stem(name)] {
			all[name] = values
		}
	}
	return all
}

// Describe returns everything that decides what is made from the same content, for a fingerprint,
// in values for JSON.
func (m *Recipe) Describe() []any {
	all := []any{m.resource, m.from.Map, m.from.Empty}
	for _, p := range m.parts {
		described := p.Part
		described.Path = strings.TrimLeft(p.Path, "/")
		described.Paging.Hosts, described.Paging.MaxPages, described.Paging.MaxItems, described.Paging.Walks = nil, 0, 0, 0
		all = append(all, described)
	}
	return all
}

// untouched reports whether a response is the document as it is: a plain list where an envelope
// could be, or the one object, and no program for it.
func (m *Recipe) untouched(p *part, body []byte) bool {
	body = bytes.TrimLeft(body, "\xef\xbb\xbf \t\r\n")
	return p.Items == plainOrResults && m.program == nil && m.draft == nil && m.ignore == nil && len(p.mapped.Maps) == 0 && p.Name == "" &&
		(!p.list || len(body) == 0 || body[0] != '{')
}

// plainOrResults is where Django REST Framework has its items.
const plainOrResults = ".results? // ."

// posts reports whether the part is asked for with a POST, which has no validators.
func (p *part) posts() bool { return p.Body.Value != nil || p.Body.Text != "" }

// check refuses what all parts share and cannot be used.
func check(s source.Shared) error {
	if name, err := exchange.CheckHeaders(s.Headers); err != nil {
		return &Error{"upstream.shared.headers." + name, err}
	}
	if h := s.RetryAfter.Header; h != "" && !exchange.IsHeaderName(h) {
		return wrong("upstream.shared.retry_after.header", "want the name of a header, got %q", h)
	}
	if u, err := url.Parse(s.Media); err != nil || s.Media != "" && !u.IsAbs() {
		return wrong("upstream.shared.media", "want an absolute URL")
	}
	if s.Def == "" {
		return nil
	}
	own := s.Def
	s.Def = ""
	_, err := mapping.Compile(defs(s), "upstream.shared.def", own+"\n.")
	lines := strings.Split(strings.TrimRight(own, "\n"), "\n")
	if failed, ok := errors.AsType[*mapping.ProgramError](err); ok && failed.Line > len(lines) { // nobody wrote that
		failed.Line, failed.Text = len(lines), strings.TrimSpace(lines[len(lines)-1])
	}
	return err
}

// compile compiles the program of a key, if there is one.
func (m *Recipe) compile(to **mapping.Program, key, source string) (err error) {
	if source == "" {
		return nil
	}
	if *to, err = mapping.Compile(m.defs, key, source); err == nil && m.place != nil {
		(*to).In(m.place(key))
	}
	return err
}

// defs is the beginning of all programs.
func defs(s source.Shared) string {
	text := ""
	if s.Media != "" {
		text = "def media: resolve_url(" + strconv.Quote(s.Media) + ");\n"
	}
	if s.Def != "" {
		text += s.Def + "\n"
	}
	return text
}

// Error is a mistake in the configuration, but for those that are a *[mapping.ProgramError].
type Error struct {
	Key string // upstream.resources.banners.parts[0].paging.size
	Err error
}

func (e *Error) Error() string { return e.Key + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

func wrong(key, format string, args ...any) error { return &Error{key, fmt.Errorf(format, args...)} }
