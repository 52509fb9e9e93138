package list

import (
	"cmp"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strings"

	"vitrine/upstream/exchange"
	"vitrine/upstream/mapping"
)

// reach finds out which server a part is asked of, and how.
func (m *Recipe) reach(p *part, key string) error {
	for i, media := range p.AcceptTypes {
		if parsed, _, err := mime.ParseMediaType(media); err != nil || parsed != media {
			return m.wrong(fmt.Sprintf("%saccept_types[%d]", key, i), "want a media type in lower case, got %q", media)
		}
	}
	if !exchange.IsHeaderValue(p.Authorization) {
		return m.wrong(key+"authorization", "want a value without control characters")
	}
	if p.Authorization != "" && p.Login != nil {
		return m.wrong(key+"login", "want either this or authorization, got both")
	}
	if err := p.Login.Check(); err != nil {
		return m.wrong(key+"login", "%w", err)
	}
	if p.URL == "" && p.Authorization == "" && p.Login == nil {
		return nil
	}
	p.origin = &exchange.Origin{Authorization: p.Authorization, Login: p.Login}
	if p.URL != "" {
		base, err := exchange.ParseBase(p.URL)
		if err != nil {
			return m.wrong(key+"url", "%w", err)
		}
		p.origin.Base = base
	}
	return nil
}

// check refuses what all parts share and cannot be used.
func (s *Shared) check() error {
	wrong := func(key string, err error) error {
		return &Error{Key: "shared." + key, Line: s.lines["shared."+key], Err: err}
	}
	if name, err := exchange.CheckHeaders(s.Headers); err != nil {
		return wrong("headers."+name, err)
	}
	if err := s.Login.Check(); err != nil {
		return wrong("login", err)
	}
	if u, err := url.Parse(s.Media); err != nil || s.Media != "" && !u.IsAbs() {
		return wrong("media", errors.New("want an absolute URL"))
	}
	if s.Def == "" {
		return nil
	}
	_, err := mapping.Compile("", "upstream.shared.def", s.defs()+".")
	if failed, ok := errors.AsType[*mapping.ProgramError](err); ok {
		return wrong("def", fmt.Errorf("%s: %w", failed.Text, failed.Err))
	}
	return err
}

// checkDetail checks what is asked for each item.
func (m *Recipe) checkDetail(p *part, key string) error {
	d := p.Detail
	if d == nil {
		return nil
	}
	d.Most = cmp.Or(d.Most, defaultDetails)
	if before, after, ok := strings.Cut(d.Path, "{id}"); !ok || exchange.CheckPath(before+"1"+after) != nil || !p.list {
		return m.wrong(key+"path", "want a path relative to the upstream URL with {id} in it, for a list, got %q", d.Path)
	}
	return m.compile(&p.detail, key+"item", d.Item)
}

func (m *Recipe) wrong(key, format string, args ...any) error {
	return &Error{Resource: m.resource, Key: key, Line: m.lines[key], Err: fmt.Errorf(format, args...)}
}

// compile compiles a program, if there is one.
func (m *Recipe) compile(to **mapping.Program, key, source string) error {
	if source == "" {
		return nil
	}
	made, err := mapping.Compile(m.defs, "upstream.resources."+string(m.resource)+"."+key, source)
	if *to = made; err == nil {
		if line, ok := m.lines[before(key)]; ok {
			made.From(line)
		}
	}
	if wrong, ok := errors.AsType[*mapping.ProgramError](err); ok { // whose name is the key
		return m.wrong(key, "line %d (%s): %w", wrong.Line, wrong.Text, wrong.Err)
	}
	return err
}
