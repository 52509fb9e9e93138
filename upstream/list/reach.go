package list

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"vitrine/config/source"
	"vitrine/upstream/exchange"
	"vitrine/upstream/mapping"
)

// check refuses what all parts share and cannot be used.
func check(s source.Shared) error {
	wrong := func(key string, err error) error {
		return &Error{Key: "shared." + key, Err: err}
	}
	if name, err := exchange.CheckHeaders(s.Headers); err != nil {
		return wrong("headers."+name, err)
	}
	if _, err := NewLogin(s.Login); err != nil {
		return wrong("login", err)
	}
	if u, err := url.Parse(s.Media); err != nil || s.Media != "" && !u.IsAbs() {
		return wrong("media", errors.New("want an absolute URL"))
	}
	if s.Def == "" {
		return nil
	}
	_, err := mapping.Compile("", "upstream.shared.def", defs(s)+".")
	if failed, ok := errors.AsType[*mapping.ProgramError](err); ok {
		return wrong("def", failed.Where())
	}
	return err
}

func (m *Recipe) wrong(key, format string, args ...any) error {
	return &Error{Resource: m.resource, Key: key, Err: fmt.Errorf(format, args...)}
}

// compile compiles a program, if there is one.
func (m *Recipe) compile(to **mapping.Program, key, source string) error {
	if source == "" {
		return nil
	}
	name, resource := "upstream.resources."+string(m.resource)+"."+key, m.resource
	if strings.HasPrefix(key, "shared.") {
		name, resource = "upstream."+key, ""
	}
	made, err := mapping.Compile(m.defs, name, source)
	*to = made
	if failed, ok := errors.AsType[*mapping.ProgramError](err); ok {
		return &Error{Resource: resource, Key: key, Line: failed.Line, Err: failed.Where()}
	}
	return err
}
