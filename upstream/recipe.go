package upstream

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// What an option of Paging that is zero means.
const (
	defaultSize     = 100
	defaultMaxPages = 1000
	defaultMaxItems = 100_000
	defaultWalks    = 3
)

// Presets returns the names that Options.Preset may have.
func Presets() []string { return mapping.Presets() }

// ResourceError is a mistake in what Options.Resources say.
type ResourceError struct {
	Resource shape.Resource
	Key      string // below the resource: parts[0].paging.size
	Err      error
}

func (e *ResourceError) Error() string {
	return fmt.Sprintf("upstream resource %s: %s: %v", e.Resource, e.Key, e.Err)
}

func (e *ResourceError) Unwrap() error { return e.Err }

// recipe is how one resource is made, all of it checked and compiled.
type recipe struct {
	resource shape.Resource
	preset   *mapping.Preset
	parts    []*part
	program  *mapping.Program // of the whole; nil for none
	maxBytes int64
	pause    time.Duration // between two walks
}

// part is one part of a recipe.
type part struct {
	name    string
	root    string // the path of what it is: catalogue.artist, banners
	list    bool
	path    string
	query   url.Values
	headers map[string]string
	paging  Paging
	all     string // see mapping.Walk
	past    []int
	ids     string
	// nil for none
	program, items, total, next *mapping.Program
}

// newRecipes makes the recipes of all resources.
func newRecipes(o Options) (map[shape.Resource]*recipe, error) {
	preset, ok := mapping.Lookup(o.Preset)
	if !ok {
		return nil, fmt.Errorf("upstream preset: want one of %s, got %q", strings.Join(Presets(), ", "), o.Preset)
	}
	for r := range o.Resources {
		if !r.Valid() {
			return nil, fmt.Errorf("upstream resources: no resource %q", r)
		}
	}
	recipes := make(map[shape.Resource]*recipe)
	for _, r := range shape.Resources() {
		made, err := newRecipe(o, preset, r)
		if err != nil {
			return nil, err
		}
		recipes[r] = made
	}
	return recipes, nil
}

func newRecipe(o Options, preset *mapping.Preset, r shape.Resource) (*recipe, error) {
	made := &recipe{resource: r, preset: preset, maxBytes: o.MaxBytes, pause: 50 * time.Millisecond}
	options := o.Resources[r]
	parts := options.Parts
	path, hasPath := o.Paths[r]
	switch {
	case hasPath && len(parts) > 0:
		return nil, &ResourceError{r, "path", errors.New("want either this or parts, got both")}
	case hasPath:
		parts = []Part{{Path: path}}
	case len(parts) == 0:
		for _, p := range preset.Parts(r) {
			parts = append(parts, Part{Name: p.Name})
		}
	}
	if len(parts) == 0 {
		return nil, &ResourceError{r, "parts", fmt.Errorf("want at least one, since the preset %s does not know where it is", preset.Name)}
	}
	seen := make(map[string]bool)
	for i, p := range parts {
		key := fmt.Sprintf("parts[%d]", i)
		if seen[p.Name] {
			return nil, &ResourceError{r, key + ".name", fmt.Errorf("want a name of its own, got %q again", p.Name)}
		}
		seen[p.Name] = true
		one, err := made.part(p, key, len(parts) > 1, options.Map != "")
		if err != nil {
			return nil, err
		}
		made.parts = append(made.parts, one)
	}
	var err error
	made.program, err = made.compile("map", options.Map)
	return made, err
}

// part checks and compiles one part.
func (m *recipe) part(o Part, key string, several, hasMap bool) (*part, error) {
	p := &part{
		name: o.Name, root: string(m.resource), list: true, path: o.Path, query: o.Query,
		headers: maps.Clone(o.Headers), paging: o.Paging, past: m.preset.Walk.Past, ids: o.IDs,
	}
	switch {
	case o.Name != "":
		p.root += "." + o.Name
	case several:
		return nil, &ResourceError{m.resource, key + ".name", errors.New("want one for each of several parts, got none")}
	case m.resource == shape.Catalogue:
		p.list = false
	}
	if o.Name != "" {
		if err := m.checkName(o.Name, hasMap); err != nil {
			return nil, &ResourceError{m.resource, key + ".name", err}
		}
	}
	if i := slices.IndexFunc(m.preset.Parts(m.resource), func(d mapping.Part) bool { return d.Name == o.Name }); i >= 0 {
		known := m.preset.Parts(m.resource)[i]
		if p.path == "" {
			p.path = known.Path
		}
		if p.query == nil {
			p.query = known.Query
		}
	}
	if p.path == "" {
		return nil, &ResourceError{m.resource, key + ".path", fmt.Errorf("want one, since the preset %s has none for this", m.preset.Name)}
	}
	if err := checkPath(p.path); err != nil {
		return nil, &ResourceError{m.resource, key + ".path", err}
	}
	if err := checkHeaders(p.headers); err != nil {
		return nil, &ResourceError{m.resource, key + ".headers", err}
	}
	if p.ids != "" && p.ids != "document" && p.ids != "number" {
		return nil, &ResourceError{m.resource, key + ".ids", fmt.Errorf(`want "document" or "number", got %q`, p.ids)}
	}
	if err := p.page(m.preset.Walk); err != nil {
		err.Resource, err.Key = m.resource, key+".paging."+err.Key
		return nil, err
	}
	for _, program := range []struct {
		to          **mapping.Program
		key, source string
	}{
		{&p.program, "map", o.Map}, {&p.items, "items", o.Items},
		{&p.total, "paging.total", program(o.Paging.Total)}, {&p.next, "paging.next", o.Paging.Next},
	} {
		var err error
		if *program.to, err = m.compile(key+"."+program.key, program.source); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// checkName allows what can be a member of the document, or of what the
// resource's own program makes the document from.
func (m *recipe) checkName(name string, hasMap bool) error {
	switch {
	case hasMap && isName(name):
		return nil
	case hasMap:
		return fmt.Errorf("want letters, digits and _, got %q", name)
	case m.resource != shape.Catalogue:
		return fmt.Errorf("want none, since the %s are one list that a map of the resource would have to make, got %q", m.resource, name)
	case !slices.Contains([]string{"artist", "artwork", "gallery"}, name):
		return fmt.Errorf("want artist, artwork or gallery, got %q", name)
	}
	return nil
}

func isName(name string) bool {
	return len(name) <= 64 && !strings.ContainsFunc(name, func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	})
}

// program is the source of a program that "-" stands in for the absence of.
func program(source string) string { return strings.TrimPrefix(source, "-") }

func (m *recipe) compile(key, source string) (*mapping.Program, error) {
	if source == "" {
		return nil, nil //nolint:nilnil // no program is one of two good outcomes
	}
	made, err := mapping.Compile("upstream.resources."+string(m.resource)+"."+key, source)
	if wrong, ok := errors.AsType[*mapping.ProgramError](err); ok { // whose name is the key
		err = fmt.Errorf("line %d (%s): %w", wrong.Line, wrong.Text, wrong.Err)
	}
	if err != nil {
		return nil, &ResourceError{m.resource, key, err}
	}
	return made, nil
}

// page fills what paging leaves open with what the preset does.
func (p *part) page(preset mapping.Walk) *ResourceError {
	g := &p.paging
	fail := func(key, format string, args ...any) *ResourceError {
		return &ResourceError{Key: key, Err: fmt.Errorf(format, args...)}
	}
	own := g.Style == "" || g.Style == preset.Style
	setDefault(&g.Style, preset.Style)
	styles := []string{PagingNone, PagingPage, PagingOffset, PagingLink, PagingCursor, PagingHeader}
	for _, n := range []struct {
		key string
		n   int
	}{{"size", g.Size}, {"max_pages", g.MaxPages}, {"max_items", g.MaxItems}, {"walks", g.Walks}} {
		if n.n < 0 {
			return fail(n.key, "want 1 or more, got %d", n.n)
		}
	}
	if own {
		setDefault(&g.Param, preset.Param)
		setDefault(&g.SizeParam, preset.SizeParam)
		if g.Size == 0 {
			p.all = preset.All
		}
		setDefault(&g.Size, preset.Size)
	}
	switch {
	case !slices.Contains(styles, g.Style):
		return fail("style", "want one of %s, got %q", strings.Join(styles, ", "), g.Style)
	case !p.list && g.Style != PagingNone && !own:
		return fail("style", "want none, since the part is an object, got %q", g.Style)
	case (g.Style == PagingPage || g.Style == PagingOffset || g.Style == PagingCursor) && g.Param == "":
		return fail("param", "want the name of the parameter for the %s, got none", g.Style)
	case g.Style == PagingCursor && g.Next == "":
		return fail("next", "want a program that finds the cursor, got none")
	case g.Style == PagingLink && g.Next == "" && !own:
		return fail("next", "want a program that finds the link, got none")
	}
	if !p.list {
		g.Style = PagingNone
	}
	if g.SizeParam == "-" {
		g.SizeParam = ""
	}
	setDefault(&g.Size, defaultSize)
	setDefault(&g.MaxPages, defaultMaxPages)
	setDefault(&g.MaxItems, defaultMaxItems)
	setDefault(&g.Walks, defaultWalks)
	if p.list {
		p.query = withDefaultQuery(p.query, p.path, preset.Query)
	}
	return nil
}

// withDefaultQuery adds to query the parameters that neither it nor path has.
// sort stands for sort[0] as well.
func withDefaultQuery(query url.Values, path string, preset url.Values) url.Values {
	all := maps.Clone(query)
	if all == nil {
		all = url.Values{}
	}
	_, inPath, _ := strings.Cut(path, "?")
	given, err := url.ParseQuery(inPath)
	if err != nil {
		given = nil // checkPath has let it through: it is for the CMS to read
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

// untouched reports whether an answer that is a whole list, or an object, is
// the document as it came.
func (m *recipe) untouched(p *part) bool {
	return m.preset.Name == "drf" && m.program == nil && p.program == nil && p.items == nil && p.name == ""
}

// describeAll is what the fingerprint covers of all resources.
func describeAll(recipes map[shape.Resource]*recipe) []string {
	var all []string
	for _, r := range shape.Resources() {
		all = append(all, recipes[r].describe())
	}
	return all
}

// describe is what the fingerprint has to cover: everything that decides what
// becomes of the same content. Of headers it has the names only.
func (m *recipe) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", m.resource, m.preset.Name)
	for _, p := range m.parts {
		g := p.paging
		first := 1
		if g.First != nil {
			first = *g.First
		}
		fmt.Fprintf(&b, " %q %q %q %q %q %q %d %d %q %q %q", p.name, strings.TrimLeft(p.path, "/"), p.query.Encode(),
			slices.Sorted(maps.Keys(p.headers)), g.Style, g.Param+" "+g.SizeParam, g.Size, first, g.Total, g.Next, p.ids)
		fmt.Fprintf(&b, " %q %q", p.items.Source(), p.program.Source())
	}
	fmt.Fprintf(&b, " %q", m.program.Source())
	return b.String()
}
